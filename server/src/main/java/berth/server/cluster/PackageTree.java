package berth.server.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.OptionalInt;
import java.util.Set;

/**
 * The files of a package, as they were unpacked, in a folder that nobody else can enter yet. What
 * they are is the supervisor's business; but a package has few of them, in flat folders, and never
 * a link.
 */
final class PackageTree extends SimpleFileVisitor<Path> {
  private static final int MOST_ENTRIES = 25_000;
  private static final int DEEPEST = 2;

  private final Path top;
  private final OptionalInt reader;
  private int entries;

  private PackageTree(Path top, OptionalInt reader) {
    this.top = top;
    this.reader = reader;
  }

  /**
   * Checks all, gives it to the user that is to read it, and brings it to disk.
   *
   * @throws BerthException INVALID if it cannot be a package
   */
  static void keep(Path top, OptionalInt reader) throws IOException {
    Files.walkFileTree(top, new PackageTree(top, reader));
  }

  /** Makes a user the owner; follows no link. */
  static void give(Path path, int user) throws IOException {
    Files.setAttribute(path, "unix:gid", user, LinkOption.NOFOLLOW_LINKS);
    Files.setAttribute(path, "unix:uid", user, LinkOption.NOFOLLOW_LINKS);
  }

  @Override
  public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
    count(folder);
    return FileVisitResult.CONTINUE;
  }

  @Override
  public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
    count(file);
    if (!attributes.isRegularFile()) {
      throw invalid(
          top.relativize(file)
              + " is "
              + (attributes.isSymbolicLink() ? "a link" : "no regular file")
              + ", which a package never has");
    }
    keep(file, PosixFilePermission.OWNER_READ);
    return FileVisitResult.CONTINUE;
  }

  @Override
  public FileVisitResult postVisitDirectory(Path folder, IOException failure) throws IOException {
    if (failure != null) {
      throw failure;
    }
    keep(folder, PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_EXECUTE);
    return FileVisitResult.CONTINUE;
  }

  private void count(Path path) {
    if (++entries > MOST_ENTRIES) {
      throw invalid("it has more than " + MOST_ENTRIES + " files and folders");
    }
    if (!path.equals(top) && top.relativize(path).getNameCount() > DEEPEST) {
      throw invalid(
          top.relativize(path) + " lies deeper than in one folder, which a package never has");
    }
  }

  private void keep(Path path, PosixFilePermission... needed) throws IOException {
    Set<PosixFilePermission> mode = EnumSet.noneOf(PosixFilePermission.class);
    mode.addAll(Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS));
    mode.addAll(Set.of(needed));
    Files.setPosixFilePermissions(path, mode);
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      channel.force(true);
    }
    if (reader.isPresent()) {
      give(path, reader.getAsInt());
    }
  }

  private static BerthException invalid(String what) {
    return new BerthException(
        Reason.INVALID, "the bundle is not the package of a cluster: " + what);
  }
}
