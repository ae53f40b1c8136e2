package berth.host.state;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.Reader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Properties;
import java.util.zip.CRC32C;

/**
 * The form of a record on disk: a line with the checksum and the length of what follows. So an
 * empty file, one that was cut short and one full of garbage are told from a whole one.
 */
public final class RecordFile {
  private static final String MAGIC = "berth-record 1 ";
  private static final int LONGEST_HEADER = 64;

  private RecordFile() {}

  /** The first line of the file that holds {@code content}. */
  static byte[] header(DurableFiles.Content content) throws IOException {
    Sum sum = new Sum();
    content.writeTo(sum);
    return line(sum.checksum.getValue(), sum.length).getBytes(StandardCharsets.US_ASCII);
  }

  /** The whole file that holds {@code content}. */
  static byte[] encode(byte[] content) throws IOException {
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    file.write(header(out -> out.write(content)));
    file.write(content);
    return file.toByteArray();
  }

  /**
   * Reads what {@link DurableFiles#write} wrote. Follows no link.
   *
   * @throws DamagedFileException if the file is not as it was written
   * @throws IOException if there is none, or it cannot be read
   */
  public static byte[] read(Path file) throws IOException {
    try (var in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
      return decode(file, in.readAllBytes());
    }
  }

  static byte[] decode(Path file, byte[] all) throws DamagedFileException {
    int end = 0;
    while (end < all.length && end < LONGEST_HEADER && all[end] != '\n') {
      end++;
    }
    String header = new String(all, 0, end, StandardCharsets.US_ASCII);
    if (end == all.length || !header.startsWith(MAGIC)) {
      throw new DamagedFileException(
          file + " is damaged: " + (all.length == 0 ? "it is empty" : "its first line is missing"));
    }
    int length = all.length - end - 1;
    CRC32C sum = new CRC32C();
    sum.update(all, end + 1, length);
    if (!(header + "\n").equals(line(sum.getValue(), length))) {
      throw new DamagedFileException(
          file + " is damaged: its " + length + " bytes do not match the checksum");
    }
    return Arrays.copyOfRange(all, end + 1, all.length);
  }

  /** As {@link #read}, for records of named values. */
  public static Properties readProperties(Path file) throws IOException {
    Properties properties = new Properties();
    try (Reader reader =
        new InputStreamReader(new ByteArrayInputStream(read(file)), StandardCharsets.UTF_8)) {
      properties.load(reader);
    } catch (IllegalArgumentException e) {
      throw new DamagedFileException(file + " is damaged: " + e.getMessage());
    }
    return properties;
  }

  /** The content of a record of named values. */
  public static byte[] content(Properties properties) {
    StringWriter text = new StringWriter();
    try {
      properties.store(text, null);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static String line(long checksum, long length) {
    return MAGIC + HexFormat.of().toHexDigits((int) checksum) + " " + length + "\n";
  }

  /** Takes what is written for its checksum and length. */
  private static final class Sum extends OutputStream {
    private final CRC32C checksum = new CRC32C();
    private long length;

    @Override
    public void write(int b) {
      checksum.update(b);
      length++;
    }

    @Override
    public void write(byte[] bytes, int from, int count) {
      checksum.update(bytes, from, count);
      length += count;
    }
  }
}
