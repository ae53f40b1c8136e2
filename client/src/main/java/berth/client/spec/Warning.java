package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A signal ahead of the end of a time limit, so that a program can save what it has.
 *
 * @param signal its name without SIG, such as {@code USR1}
 */
public record Warning(String signal, Duration before) {
  private static final Pattern FORM = Pattern.compile("(?:SIG)?([A-Z][A-Z0-9+-]*)@(\\d+)(\\D*)");

  /**
   * What servers send: the others end a program that cannot do anything about it, or are for
   * debuggers.
   */
  private static final List<String> SIGNALS =
      List.of("HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "ALRM", "WINCH");

  public Warning {
    if (!SIGNALS.contains(signal)) {
      throw new BerthException(
          Reason.INVALID,
          "'" + signal + "' is not a supported signal: use one of " + String.join(", ", SIGNALS));
    }
    if (before.isNegative() || before.isZero()) {
      throw new BerthException(
          Reason.INVALID, "the signal " + signal + " must come before the time limit");
    }
  }

  /**
   * Reads {@code USR1@60}, as Slurm has it, and {@code USR1@2m}.
   *
   * @throws BerthException if it is something else
   */
  public static Warning parse(String text) {
    Matcher matcher = FORM.matcher(text);
    if (!matcher.matches()) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "' is not a signal and a time, such as USR1@60 or USR1@2m");
    }
    String unit = matcher.group(3).isEmpty() ? "s" : matcher.group(3);
    return new Warning(matcher.group(1), RunSpec.Builder.duration(matcher.group(2) + unit));
  }
}
