package berth.server.run;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.GZIPOutputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/** Makes tars, good and bad, and reads them. */
final class Tars {
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes, "UTF-8");

  Tars() {
    tar.setLongFileMode(TarArchiveOutputStream.LONGFILE_POSIX);
    tar.setBigNumberMode(TarArchiveOutputStream.BIGNUMBER_POSIX);
    tar.setAddPaxHeadersForNonAsciiNames(true);
  }

  Tars file(String name, String content) {
    return file(name, content, 0644, 0);
  }

  Tars file(String name, String content, int mode, long modifiedSeconds) {
    TarArchiveEntry entry = new TarArchiveEntry(name, true);
    entry.setMode(mode);
    entry.setModTime(modifiedSeconds * 1000);
    return put(entry, content);
  }

  Tars folder(String name, int mode, long modifiedSeconds) {
    TarArchiveEntry entry = new TarArchiveEntry(name, TarConstants.LF_DIR, true);
    entry.setMode(mode);
    entry.setModTime(modifiedSeconds * 1000);
    return put(entry, "");
  }

  Tars link(String name, String target) {
    return special(TarConstants.LF_SYMLINK, name, target);
  }

  Tars special(byte type, String name, String target) {
    TarArchiveEntry entry = new TarArchiveEntry(name, type, true);
    entry.setLinkName(target);
    return put(entry, "");
  }

  Tars put(TarArchiveEntry entry, String content) {
    byte[] data = content.getBytes(StandardCharsets.UTF_8);
    entry.setSize(data.length);
    try {
      tar.putArchiveEntry(entry);
      tar.write(data);
      tar.closeArchiveEntry();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return this;
  }

  byte[] bytes() {
    try {
      tar.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  static byte[] gzip(byte[] data) {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
      out.write(data);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return packed.toByteArray();
  }

  static String sha256(byte[] data) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Names with their content; {@code -> target} for a link, nothing for a folder. */
  static Map<String, String> read(byte[] tar) throws IOException {
    Map<String, String> found = new LinkedHashMap<>();
    try (var in = new TarArchiveInputStream(new ByteArrayInputStream(tar), "UTF-8")) {
      for (TarArchiveEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
        String content =
            entry.isSymbolicLink()
                ? "-> " + entry.getLinkName()
                : new String(in.readAllBytes(), StandardCharsets.UTF_8);
        if (found.put(entry.getName(), content) != null) {
          throw new IOException(entry.getName() + " is in the tar twice");
        }
      }
    }
    return found;
  }
}
