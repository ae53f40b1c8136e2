package berth.command;

import java.time.Duration;
import java.util.regex.Pattern;
import picocli.CommandLine.TypeConversionException;

/** What several files take as values. Each refuses other text by TypeConversionException. */
public final class Converters {
  private static final Pattern VARIABLE = Pattern.compile("[^=\\s\\p{Cntrl}]+");

  private Converters() {}

  /** An amount of memory in bytes, more than none. */
  public static long size(String text) {
    long bytes = new SizeConverter().convert(text);
    if (bytes == 0) {
      throw new TypeConversionException("'" + text + "' is nothing");
    }
    return bytes;
  }

  /** A duration, longer than none. */
  public static Duration time(String text) {
    Duration time = new DurationConverter().convert(text);
    if (time.isZero()) {
      throw new TypeConversionException("'" + text + "' is no time at all");
    }
    return time;
  }

  /** A number of processors, also with parts of one, more than none. */
  public static double cpus(String text) {
    if (!text.matches("\\d{1,5}(\\.\\d{1,9})?") || Double.parseDouble(text) == 0) {
      throw new TypeConversionException("'" + text + "' is not a number of CPUs such as 4 or 1.5");
    }
    return Double.parseDouble(text);
  }

  /** A whole number. */
  public static long number(String text, long least) {
    if (!text.matches("-?\\d{1,18}") || Long.parseLong(text) < least) {
      throw new TypeConversionException(
          "'" + text + "' is not a whole number from " + least + " on");
    }
    return Long.parseLong(text);
  }

  /** The name of a variable of the environment. */
  public static String variable(String text) {
    if (!VARIABLE.matcher(text).matches()) {
      throw new TypeConversionException("'" + text + "' is not the name of a variable");
    }
    return text;
  }
}
