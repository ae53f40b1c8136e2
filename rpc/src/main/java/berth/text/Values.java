package berth.text;

import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Values as people write them. Each method refuses other text by InvalidValueException. */
public final class Values {
  private static final Pattern VARIABLE = Pattern.compile("[^=\\s\\p{Cntrl}]+");

  private static final Pattern SIZE = Pattern.compile("(\\d{1,6})([kmgt])(i?b)?");
  private static final Pattern DURATION_PART = Pattern.compile("(\\d{1,12})(ms|s|m|h|d)");
  // Each unit at most once, the largest first.
  private static final Pattern DURATION =
      Pattern.compile(
          "(?=\\d)(\\d{1,12}d)?(\\d{1,12}h)?(\\d{1,12}m(?!s))?(\\d{1,12}s)?(\\d{1,12}ms)?");

  // Clocks count nanoseconds in 64 bits, which is enough for about three times this.
  private static final Duration LONGEST = Duration.ofDays(36500);
  private static final Map<String, Duration> UNITS =
      Map.of(
          "ms", Duration.ofMillis(1),
          "s", Duration.ofSeconds(1),
          "m", Duration.ofMinutes(1),
          "h", Duration.ofHours(1),
          "d", Duration.ofDays(1));

  /** The number that stands for all GPUs of a server, here and in the protocol. */
  public static final int ALL_GPUS = -1;

  private Values() {}

  /**
   * A duration such as {@code 500ms}, {@code 30s}, {@code 10m}, {@code 1h30m} or {@code 1d}; it may
   * be zero.
   */
  public static Duration duration(String text) {
    if (!DURATION.matcher(text.trim()).matches()) {
      throw new InvalidValueException("'" + text + "' is not a duration such as 30s, 10m or 1h30m");
    }
    Duration duration = Duration.ZERO;
    Matcher part = DURATION_PART.matcher(text.trim());
    while (part.find()) {
      duration =
          duration.plus(UNITS.get(part.group(2)).multipliedBy(Long.parseLong(part.group(1))));
    }
    if (duration.compareTo(LONGEST) > 0) {
      throw new InvalidValueException("'" + text + "' is longer than " + LONGEST.toDays() + "d");
    }
    return duration;
  }

  /**
   * An amount of memory in bytes, in powers of 1024, such as {@code 512m}, {@code 20g} or {@code
   * 1t}; it may be zero.
   */
  public static long size(String text) {
    Matcher matcher = SIZE.matcher(text.trim().toLowerCase(Locale.ROOT));
    if (!matcher.matches()) {
      throw new InvalidValueException(
          "'" + text + "' is not an amount of memory such as 512m or 20g");
    }
    int power = "kmgt".indexOf(matcher.group(2)) + 1;
    return Long.parseLong(matcher.group(1)) << 10 * power;
  }

  /** A number of GPUs, or {@code all}, which is {@link #ALL_GPUS}. */
  public static int gpuCount(String text) {
    if (text.equals("all")) {
      return ALL_GPUS;
    }
    try {
      int count = Integer.parseInt(text);
      if (count < 0) {
        throw new InvalidValueException(
            "number of GPUs must not be negative: " + text + " (use 'all' for all)");
      }
      return count;
    } catch (NumberFormatException e) {
      throw new InvalidValueException("'" + text + "' is neither a number nor 'all'");
    }
  }

  /** An amount of memory in bytes, more than none. */
  public static long positiveSize(String text) {
    long bytes = size(text);
    if (bytes == 0) {
      throw new InvalidValueException("'" + text + "' must be more than 0");
    }
    return bytes;
  }

  /** A duration, longer than none. */
  public static Duration positiveDuration(String text) {
    Duration time = duration(text);
    if (time.isZero()) {
      throw new InvalidValueException("'" + text + "' must be more than 0");
    }
    return time;
  }

  /** A number of processors, also with parts of one, more than none. */
  public static double cpus(String text) {
    if (!text.matches("\\d{1,5}(\\.\\d{1,9})?") || Double.parseDouble(text) == 0) {
      throw new InvalidValueException("'" + text + "' is not a number of CPUs such as 4 or 1.5");
    }
    return Double.parseDouble(text);
  }

  /** A whole number. */
  public static long number(String text, long least) {
    if (!text.matches("-?\\d{1,18}") || Long.parseLong(text) < least) {
      throw new InvalidValueException("'" + text + "' is not an integer of at least " + least + "");
    }
    return Long.parseLong(text);
  }

  /** The name of a variable of the environment. */
  public static String variable(String text) {
    if (!VARIABLE.matcher(text).matches()) {
      throw new InvalidValueException("'" + text + "' is not a valid variable name");
    }
    return text;
  }
}
