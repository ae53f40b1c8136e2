package berth.rpc;

import java.util.Locale;

/** Sizes for messages, in the units in which people give them. */
public final class ByteSize {
  private static final String UNITS = "KMGTPE";

  private ByteSize() {}

  /** A number of bytes such as {@code 1 MiB}, {@code 1.5 GiB} or {@code 17 bytes}. */
  public static String text(long bytes) {
    if (Math.abs(bytes) < 1024) {
      return bytes == 1 ? "1 byte" : bytes + " bytes";
    }
    double size = bytes;
    int unit = -1;
    // A size that would be rounded to 1024 is one of the next unit.
    while (Math.abs(size) >= 1023.95) {
      size /= 1024;
      unit++;
    }
    String number = String.format(Locale.ROOT, "%.1f", size);
    return number.replaceFirst("\\.0$", "") + " " + UNITS.charAt(unit) + "iB";
  }
}
