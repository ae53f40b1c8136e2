package berth.command;

import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Reads a duration as people write it: {@code 500ms}, {@code 30s}, {@code 10m}, {@code 2h}, {@code
 * 1h30m}, {@code 1d}.
 */
public final class DurationConverter implements ITypeConverter<Duration> {
  private static final Pattern PART = Pattern.compile("(\\d{1,12})(ms|s|m|h|d)");
  // Each unit at most once, the largest first.
  private static final Pattern FORM =
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

  @Override
  public Duration convert(String text) {
    Matcher matcher = PART.matcher(text.trim());
    if (!FORM.matcher(text.trim()).matches()) {
      throw new TypeConversionException(
          "'" + text + "' is not a duration such as 30s, 10m or 1h30m");
    }
    Duration duration = Duration.ZERO;
    while (matcher.find()) {
      duration =
          duration.plus(UNITS.get(matcher.group(2)).multipliedBy(Long.parseLong(matcher.group(1))));
    }
    if (duration.compareTo(LONGEST) > 0) {
      throw new TypeConversionException("'" + text + "' is longer than " + LONGEST.toDays() + "d");
    }
    return duration;
  }
}
