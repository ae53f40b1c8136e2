package berth.command;

import berth.text.InvalidValueException;
import berth.text.Values;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads an amount of memory of a command line; see {@link Values#size}. */
public final class SizeConverter implements ITypeConverter<Long> {
  @Override
  public Long convert(String text) {
    try {
      return Values.size(text);
    } catch (InvalidValueException e) {
      throw new TypeConversionException(e.getMessage());
    }
  }
}
