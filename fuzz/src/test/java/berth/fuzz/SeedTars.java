package berth.fuzz;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/** SeedTars to begin with: good ones, and those that try what must not work. */
public final class SeedTars {
  private interface Filling {
    void fill(TarArchiveOutputStream tar) throws IOException;
  }

  private SeedTars() {}

  public static Stream<byte[]> seeds() throws IOException {
    byte[] good =
        tar(
            tar -> {
              put(tar, TarConstants.LF_DIR, "src/", "", "");
              put(tar, TarConstants.LF_NORMAL, "src/train.py", "", "print(1)\n");
              put(tar, TarConstants.LF_SYMLINK, "src/latest", "train.py", "");
              put(tar, TarConstants.LF_SYMLINK, "top", "src", "");
              put(tar, TarConstants.LF_NORMAL, "a".repeat(120) + "/é", "", "x");
            });
    return Stream.of(
        good,
        gzip(good),
        tar(tar -> put(tar, TarConstants.LF_NORMAL, "train.py", "", "import tensorflow\n")),
        tar(tar -> put(tar, TarConstants.LF_NORMAL, "../secret", "", "x")),
        tar(tar -> put(tar, TarConstants.LF_NORMAL, "/tmp/berth-fuzz-absolute", "", "x")),
        tar(
            tar -> {
              put(tar, TarConstants.LF_SYMLINK, "out", "..", "");
              put(tar, TarConstants.LF_NORMAL, "out/secret", "", "x");
            }),
        tar(
            tar -> {
              put(tar, TarConstants.LF_SYMLINK, "d", "e", "");
              put(tar, TarConstants.LF_DIR, "d", "", "");
              put(tar, TarConstants.LF_NORMAL, "d/f", "", "x");
            }),
        tar(tar -> put(tar, TarConstants.LF_SYMLINK, "top", "src/../src", "")),
        tar(tar -> put(tar, TarConstants.LF_LINK, "hard", "../secret", "")),
        tar(tar -> put(tar, TarConstants.LF_FIFO, "pipe", "", "")),
        sparse(),
        new byte[1024]);
  }

  /** An old sparse file of GNU: few bytes that stand for many. */
  private static byte[] sparse() throws IOException {
    byte[] tar = tar(out -> put(out, TarConstants.LF_NORMAL, "sparse", "", "\0".repeat(0) + "x"));
    tar[156] = 'S';
    System.arraycopy("ustar  \0".getBytes(StandardCharsets.US_ASCII), 0, tar, 257, 8);
    octal(tar, 386, 12, 1 << 28);
    octal(tar, 386 + 12, 12, 1);
    octal(tar, 483, 12, (1 << 28) + 1);
    java.util.Arrays.fill(tar, 148, 156, (byte) ' ');
    int sum = 0;
    for (int i = 0; i < 512; i++) {
      sum += tar[i] & 0xff;
    }
    octal(tar, 148, 7, sum);
    return tar;
  }

  private static void octal(byte[] tar, int at, int length, long value) {
    byte[] digits =
        String.format("%0" + (length - 1) + "o\0", value).getBytes(StandardCharsets.US_ASCII);
    System.arraycopy(digits, 0, tar, at, length);
  }

  private static byte[] tar(Filling filling) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    // Small blocks: what libFuzzer does not need to copy it can change.
    try (TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes, 512, "UTF-8")) {
      tar.setLongFileMode(TarArchiveOutputStream.LONGFILE_POSIX);
      tar.setAddPaxHeadersForNonAsciiNames(true);
      filling.fill(tar);
    }
    return bytes.toByteArray();
  }

  private static void put(
      TarArchiveOutputStream tar, byte type, String name, String target, String content)
      throws IOException {
    TarArchiveEntry entry = new TarArchiveEntry(name, type, true);
    entry.setLinkName(target);
    entry.setModTime(0);
    byte[] data = content.getBytes(StandardCharsets.UTF_8);
    entry.setSize(data.length);
    tar.putArchiveEntry(entry);
    tar.write(data);
    tar.closeArchiveEntry();
  }

  private static byte[] gzip(byte[] data) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
      out.write(data);
    }
    return packed.toByteArray();
  }
}
