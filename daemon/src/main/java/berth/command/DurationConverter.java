package berth.command;

import berth.text.InvalidValueException;
import berth.text.Values;
import java.time.Duration;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads a duration of a command line; see {@link Values#duration}. */
public final class DurationConverter implements ITypeConverter<Duration> {
  @Override
  public Duration convert(String text) {
    try {
      return Values.duration(text);
    } catch (InvalidValueException e) {
      throw new TypeConversionException(e.getMessage());
    }
  }
}
