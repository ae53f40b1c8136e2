package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.ByteSize;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import java.io.BufferedInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/**
 * Unpacks a tar that somebody else made, and writes nothing outside of the folder, whatever it
 * says: no absolute names, no {@code ..}, nothing through a link, no devices. Nor more than is
 * allowed: sparse files, which a few bytes make as large as one likes, are refused.
 */
public final class TarUnpacker {
  /**
   * What came of a tar.
   *
   * @param files how many files were written
   * @param leftOut what was not, one sentence each: links that lead out of the folder, devices
   */
  public record Unpacked(int files, List<String> leftOut) {}

  /**
   * What a tar may make of the disk.
   *
   * @param bytes of all files together, as they are written
   * @param entries files, folders, links, and what is left out
   * @param depth parts of a name
   */
  public record Limits(long bytes, int entries, int depth) {
    private static final int MOST_ENTRIES = 1_000_000;
    private static final int DEEPEST = 100;

    /** So many bytes, and as many files as people have. */
    public static Limits bytes(long bytes) {
      return new Limits(bytes, MOST_ENTRIES, DEEPEST);
    }
  }

  /** What is done to files that exist. */
  public enum Existing {
    REPLACE,
    /** Nothing: unpacking fails at the first of them. */
    KEEP
  }

  private final Path root;
  private final Limits limits;
  private final Existing existing;
  private final List<String> leftOut = new ArrayList<>();
  private long bytes;
  private int entries;
  private int files;

  private TarUnpacker(Path root, Limits limits, Existing existing) {
    this.root = root;
    this.limits = limits;
    this.existing = existing;
  }

  /**
   * Unpacks into {@code folder}, which is made if it is not there. A file that exists is replaced
   * once the new one is complete. Any thread may call.
   *
   * @param rename gives each name the one to unpack it under; empty: not at all
   * @throws BerthException if a name leads out of the folder or through a link, or the limits are
   *     exceeded; what came before is unpacked then
   * @throws IOException if the tar is none, or the folder cannot be written
   */
  public static Unpacked unpack(
      InputStream tar, Path folder, UnaryOperator<String> rename, Limits limits)
      throws IOException {
    return unpack(tar, folder, rename, limits, Existing.REPLACE);
  }

  /**
   * The same with a choice of what is done to files that exist.
   *
   * @throws BerthException also ALREADY_EXISTS if one exists that is to be kept
   */
  public static Unpacked unpack(
      InputStream tar, Path folder, UnaryOperator<String> rename, Limits limits, Existing existing)
      throws IOException {
    if (!Files.isDirectory(folder)) {
      Files.createDirectories(folder);
    }
    // A folder that is itself a link is the caller's choice.
    TarUnpacker unpacker = new TarUnpacker(folder.toRealPath(), limits, existing);
    HeaderLimit headers = new HeaderLimit(new BufferedInputStream(tar, 1 << 16));
    try (TarArchiveInputStream in = new TarArchiveInputStream(headers, "UTF-8")) {
      TarArchiveEntry entry;
      while ((entry = next(in, headers)) != null) {
        String name = checked(entry.getName());
        unpacker.check(entry, name);
        String renamed = name.isEmpty() ? "" : checked(rename.apply(name));
        if (!renamed.isEmpty()) {
          unpacker.unpack(in, entry, renamed);
        }
        // What nobody wanted would count as part of the next header.
        in.transferTo(OutputStream.nullOutputStream());
      }
    }
    return new Unpacked(unpacker.files, List.copyOf(unpacker.leftOut));
  }

  private static TarArchiveEntry next(TarArchiveInputStream in, HeaderLimit headers)
      throws IOException {
    headers.begin();
    try {
      return in.getNextEntry();
    } catch (IllegalArgumentException e) {
      // The library reports damage in many ways.
      throw new IOException("not a tar, or damaged: " + e.getMessage(), e);
    } finally {
      headers.end();
    }
  }

  private void check(TarArchiveEntry entry, String name) {
    if (++entries > limits.entries) {
      throw exceeded("has more than " + limits.entries + " entries");
    }
    if (name.chars().filter(c -> c == '/').count() >= limits.depth) {
      throw exceeded("has folders more than " + limits.depth + " deep");
    }
    if (entry.isSparse()) {
      throw new BerthException(
          Reason.INVALID, "will not unpack '" + name + "': it is a sparse file");
    }
  }

  private static BerthException exceeded(String what) {
    return new BerthException(Reason.EXHAUSTED, "will not unpack all of it: the tar " + what);
  }

  /** The same name without what changes nothing; empty for the folder itself. */
  private static String checked(String name) {
    List<String> parts = new ArrayList<>();
    for (String part : name.split("/")) {
      if (part.equals("..")) {
        throw outside(name);
      }
      if (!part.isEmpty() && !part.equals(".")) {
        parts.add(part);
      }
    }
    if (name.startsWith("/") || name.indexOf('\0') >= 0) {
      throw outside(name);
    }
    return String.join("/", parts);
  }

  private static BerthException outside(String name) {
    return new BerthException(
        Reason.INVALID, "will not unpack '" + name + "': it lies outside of the folder");
  }

  private void unpack(InputStream content, TarArchiveEntry entry, String name) throws IOException {
    if (name.chars().anyMatch(Character::isISOControl)) {
      // Whoever lists the folder later may do so in a terminal.
      leftOut.add(PlainText.escape(name) + ": its name has control characters");
      return;
    }
    Path target = root.resolve(name);
    if (entry.isDirectory()) {
      makeFolders(target);
      // Its owner must be able to write what follows.
      setMode(target, entry.getMode() | 0700);
      return;
    }
    boolean link = entry.isSymbolicLink();
    if (!link && !isFile(entry)) {
      leftOut.add(name + ": neither file nor folder nor symbolic link");
      return;
    }
    if (link && !staysInside(name, entry.getLinkName())) {
      leftOut.add(name + ": a link that leads out of the folder, to " + entry.getLinkName());
      return;
    }
    makeFolders(target.getParent());
    if (Files.isDirectory(target, LinkOption.NOFOLLOW_LINKS)) {
      throw new BerthException(
          Reason.CONFLICT, "will not replace the folder " + target + " by a file");
    }
    if (existing == Existing.KEEP && Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
      throw new BerthException(Reason.ALREADY_EXISTS, target + " exists");
    }
    // Made under another name and then renamed: rename replaces a link, where writing would follow
    // it, and nobody sees half a file.
    Path part = unused(target);
    try {
      if (link) {
        Files.createSymbolicLink(part, Path.of(entry.getLinkName()));
      } else {
        write(content, part);
        setMode(part, entry.getMode());
        Files.setLastModifiedTime(part, FileTime.from(entry.getLastModifiedTime().toInstant()));
      }
      Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
      files++;
    } finally {
      Files.deleteIfExists(part);
    }
  }

  // Not the library's isFile, which is true of all that it knows no better.
  private static boolean isFile(TarArchiveEntry entry) {
    return switch (entry.getLinkFlag()) {
      case TarConstants.LF_NORMAL, TarConstants.LF_OLDNORM, TarConstants.LF_CONTIG -> true;
      default -> false;
    };
  }

  // Counts what is written, whatever the header has said.
  private void write(InputStream content, Path file) throws IOException {
    byte[] buffer = new byte[1 << 16];
    try (OutputStream out = Files.newOutputStream(file, StandardOpenOption.CREATE_NEW)) {
      for (int length; (length = content.read(buffer)) >= 0; ) {
        bytes += length;
        if (bytes > limits.bytes) {
          throw exceeded("unpacks to more than " + ByteSize.text(limits.bytes));
        }
        out.write(buffer, 0, length);
      }
    }
  }

  private void makeFolders(Path folder) throws IOException {
    Path current = root;
    for (Path step : root.relativize(folder)) {
      current = current.resolve(step);
      if (Files.isSymbolicLink(current)) {
        throw new BerthException(
            Reason.INVALID, "will not unpack into " + current + ": it is a link");
      }
      try {
        if (!Files.isDirectory(current, LinkOption.NOFOLLOW_LINKS)) {
          Files.createDirectory(current);
        }
      } catch (FileAlreadyExistsException e) {
        throw new BerthException(
            Reason.CONFLICT, "will not replace the file " + current + " by a folder", e);
      }
    }
  }

  // ".." only in front: there it leads up real folders, further on perhaps up from behind a link.
  private static boolean staysInside(String name, String link) {
    int depth = name.split("/").length - 1;
    boolean up = true;
    for (String part : link.split("/")) {
      if (part.equals("..")) {
        depth--;
        if (!up || depth < 0) {
          return false;
        }
      } else {
        up &= part.equals(".");
      }
    }
    return !link.isEmpty() && !link.startsWith("/") && link.indexOf('\0') < 0;
  }

  private static Path unused(Path target) {
    int number = 0;
    Path part;
    do {
      part = target.resolveSibling(".berth-part-" + number++);
    } while (Files.exists(part, LinkOption.NOFOLLOW_LINKS));
    return part;
  }

  private static void setMode(Path path, int mode) throws IOException {
    // Their order is that of the bits.
    PosixFilePermission[] bits = PosixFilePermission.values();
    Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
    for (int i = 0; i < bits.length; i++) {
      if ((mode & 0400 >> i) != 0) {
        permissions.add(bits[i]);
      }
    }
    Files.setPosixFilePermissions(path, permissions);
  }

  /** Stops the library, which reads headers into memory however long they are. */
  private static final class HeaderLimit extends FilterInputStream {
    private static final long MOST = 1 << 20;

    private boolean header;
    private long read;

    HeaderLimit(InputStream in) {
      super(in);
    }

    void begin() {
      header = true;
      read = 0;
    }

    void end() {
      header = false;
    }

    @Override
    public int read() throws IOException {
      int next = super.read();
      count(1);
      return next;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) throws IOException {
      int found = super.read(buffer, offset, length);
      count(found);
      return found;
    }

    @Override
    public long skip(long length) throws IOException {
      long skipped = super.skip(length);
      count(skipped);
      return skipped;
    }

    private void count(long length) {
      read += header ? Math.max(0, length) : 0;
      if (read > MOST) {
        throw exceeded("has a header of more than " + MOST + " bytes");
      }
    }
  }
}
