package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * When a run is ended because it does not use its GPUs: all of them have had a utilisation below
 * this for so long without a break.
 *
 * @param belowPercent from 1 to 100
 * @param time a second or more
 */
public record IdleLimit(int belowPercent, Duration time) {
  private static final Pattern FORM = Pattern.compile("(\\d{1,9})%@(.+)");

  /**
   * @throws BerthException if a number is out of its range
   */
  public IdleLimit {
    if (belowPercent < 1 || belowPercent > 100) {
      throw invalid("an idle limit of " + belowPercent + " % asked; it must be from 1 to 100");
    }
    if (time.compareTo(Duration.ofSeconds(1)) < 0) {
      throw invalid(
          "an idle limit of " + time.toMillis() + " ms asked; it must be a second or more");
    }
  }

  /**
   * Reads {@code 5%@30m}: less than 5 percent for 30 minutes.
   *
   * @throws BerthException if it is something else
   */
  public static IdleLimit parse(String text) {
    Matcher matcher = FORM.matcher(text);
    if (!matcher.matches()) {
      throw invalid("'" + text + "' is not a percentage and a time, such as 5%@30m");
    }
    return new IdleLimit(
        Integer.parseInt(matcher.group(1)), RunSpec.Builder.duration(matcher.group(2)));
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
