package berth.command;

import berth.text.InvalidValueException;
import berth.text.Values;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads a number of GPUs of a command line; see {@link Values#gpuCount}. */
public final class GpuCountConverter implements ITypeConverter<Integer> {
  @Override
  public Integer convert(String text) {
    try {
      return Values.gpuCount(text);
    } catch (InvalidValueException e) {
      throw new TypeConversionException(e.getMessage());
    }
  }
}
