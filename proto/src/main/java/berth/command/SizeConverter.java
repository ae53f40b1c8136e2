package berth.command;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Reads an amount of memory as people write it, in powers of 1024: {@code 512m}, {@code 20g},
 * {@code 1t}.
 */
public final class SizeConverter implements ITypeConverter<Long> {
  private static final Pattern FORM = Pattern.compile("(\\d{1,6})([kmgt])(i?b)?");

  @Override
  public Long convert(String text) {
    Matcher matcher = FORM.matcher(text.trim().toLowerCase(Locale.ROOT));
    if (!matcher.matches()) {
      throw new TypeConversionException(
          "'" + text + "' is not an amount of memory such as 512m or 20g");
    }
    int power = "kmgt".indexOf(matcher.group(2)) + 1;
    return Long.parseLong(matcher.group(1)) << 10 * power;
  }
}
