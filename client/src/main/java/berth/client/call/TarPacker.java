package berth.client.call;

import berth.client.spec.IgnoreFile;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/**
 * Packs a folder such that the same files always give the same bytes, on any machine: a server that
 * has a bundle knows it again by its digest.
 */
public final class TarPacker {
  // Names, modes and contents count. A time of its own would make every checkout another bundle;
  // this one is the earliest that zip files, and with them Python's packaging, can express.
  private static final long FIXED_SECONDS = 315_619_200;

  private TarPacker() {}

  /**
   * Writes the files, folders and links below {@code folder} to {@code tar}, and returns the digest
   * that {@code UploadBundle} wants. Leaves out {@code .git}, the folders {@code berth-logs} that
   * clusters write, and what {@code .berthignore} in the folder names, which is written as {@code
   * .gitignore} is. Any thread may call.
   *
   * @throws BerthException if there is no such folder, or something in it is neither file nor
   *     folder nor link
   * @throws IOException if something cannot be read, or changes meanwhile
   */
  public static String pack(Path folder, Path tar) throws IOException {
    if (!Files.isDirectory(folder)) {
      throw new BerthException(
          Reason.INVALID,
          "cannot bundle "
              + folder
              + ": "
              + (Files.exists(folder) ? "not a folder" : "no such folder"));
    }
    MessageDigest sha256 = sha256();
    try (OutputStream bytes =
            new DigestOutputStream(
                new BufferedOutputStream(Files.newOutputStream(tar), 1 << 16), sha256);
        TarArchiveOutputStream out = new TarArchiveOutputStream(bytes, "UTF-8")) {
      out.setLongFileMode(TarArchiveOutputStream.LONGFILE_POSIX);
      out.setBigNumberMode(TarArchiveOutputStream.BIGNUMBER_POSIX);
      out.setAddPaxHeadersForNonAsciiNames(true);
      for (Map.Entry<String, Path> file :
          contents(folder.toRealPath(), tar.toRealPath()).entrySet()) {
        add(out, file.getKey(), file.getValue());
      }
    }
    return HexFormat.of().formatHex(sha256.digest());
  }

  // By name, in an order that no file system and no locale has a say in.
  private static TreeMap<String, Path> contents(Path folder, Path tar) throws IOException {
    IgnoreFile ignored = IgnoreFile.of(folder);
    TreeMap<String, Path> contents = new TreeMap<>();
    Files.walkFileTree(
        folder,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path path, BasicFileAttributes attributes) {
            if (path.equals(folder)) {
              return FileVisitResult.CONTINUE;
            }
            if (ignored.leavesOut(folder.relativize(path), true)) {
              return FileVisitResult.SKIP_SUBTREE;
            }
            contents.put(folder.relativize(path).toString(), path);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path path, BasicFileAttributes attributes) {
            if (!path.equals(tar) && !ignored.leavesOut(folder.relativize(path), false)) {
              contents.put(folder.relativize(path).toString(), path);
            }
            return FileVisitResult.CONTINUE;
          }
        });
    return contents;
  }

  private static void add(TarArchiveOutputStream out, String name, Path path) throws IOException {
    BasicFileAttributes attributes =
        Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    TarArchiveEntry entry;
    if (attributes.isSymbolicLink()) {
      entry = new TarArchiveEntry(name, TarConstants.LF_SYMLINK);
      entry.setLinkName(Files.readSymbolicLink(path).toString());
    } else if (attributes.isDirectory()) {
      entry = new TarArchiveEntry(name + "/");
    } else if (attributes.isRegularFile()) {
      entry = new TarArchiveEntry(name);
      entry.setSize(attributes.size());
    } else {
      throw new BerthException(
          Reason.INVALID, "cannot bundle " + path + ": it is neither file nor folder nor link");
    }
    entry.setMode(attributes.isSymbolicLink() ? 0777 : mode(path));
    entry.setIds(0, 0);
    entry.setNames("", "");
    entry.setModTime(FIXED_SECONDS * 1000);
    out.putArchiveEntry(entry);
    if (attributes.isRegularFile()) {
      copy(out, path, attributes.size());
    }
    out.closeArchiveEntry();
  }

  private static void copy(TarArchiveOutputStream out, Path path, long size) throws IOException {
    try (InputStream in = Files.newInputStream(path)) {
      byte[] buffer = new byte[1 << 16];
      long left = size;
      while (left > 0) {
        int length = in.readNBytes(buffer, 0, (int) Math.min(buffer.length, left));
        if (length == 0) {
          throw new IOException(path + " became shorter while it was bundled");
        }
        out.write(buffer, 0, length);
        left -= length;
      }
    }
  }

  private static int mode(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS) & 0777;
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JVM has SHA-256", e);
    }
  }
}
