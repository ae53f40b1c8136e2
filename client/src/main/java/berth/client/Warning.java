package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A signal ahead of the end of a time limit, so that a program can save what it has.
 *
 * @param signal its name without SIG, such as {@code USR1}
 */
public record Warning(String signal, Duration before) {
  private static final Pattern FORM = Pattern.compile("(?:SIG)?([A-Z][A-Z0-9+-]*)@(\\d+)(\\D*)");
  private static final Pattern SIGNAL = Pattern.compile("[A-Z][A-Z0-9+-]{0,19}");

  public Warning {
    if (!SIGNAL.matcher(signal).matches() || before.isNegative()) {
      throw new BerthException(
          Reason.INVALID, "the warning " + signal + "@" + before + " has no such signal or time");
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
