package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.mount.MountPoints;
import berth.server.run.mount.PinnedPath;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotLinkException;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/**
 * The folders in which strangers' programs have worked, or work at this moment. What is in them may
 * be made to lead elsewhere, so folders are walked through by descriptors, never by paths, and
 * links are never followed.
 */
public final class WorkFiles {
  private static final int MAX_DEPTH = BundleTar.MAX_DEPTH;
  private static final int OWNER_ALL = 0700;
  // Whatever the umask is: the user of an image may be anybody. Others do not get to this folder.
  private static final int EVERYONE_ENTERS = 0755;
  private static final int EVERYONE_READS = 0644;

  // A program can nest folders deeper than a path or a stack reaches. From this depth on they are
  // moved to the top, and deleted from there.
  private static final int MAX_DELETE_DEPTH = 32;

  private WorkFiles() {}

  /**
   * Writes what matches {@link PathPatterns}, folders with all that is in them, as a tar to {@code
   * out}, which stays open. Links are written as links; what is neither file, folder nor link is
   * left out, and so is what vanishes or becomes something else meanwhile. A file that shrinks
   * while it is read is filled up with zeros, one that grows is cut off.
   *
   * @throws BerthException before anything is written, INVALID for a pattern that leads out of the
   *     folder, NOT_FOUND for one that matches nothing; at any time, DENIED for what this server
   *     may not read and EXHAUSTED for folders that are nested too deeply
   */
  static void tar(Path folder, List<String> texts, OutputStream out) throws IOException {
    PathPatterns patterns = new PathPatterns(texts);
    Set<PathPatterns.Place> start = patterns.start();
    Set<Integer> found = new HashSet<>();
    try (OpenFolder top = OpenFolder.of(PinnedPath.folder(folder))) {
      find(patterns, top, "", start, found);
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    for (int i = 0; i < patterns.size(); i++) {
      if (!found.contains(i)) {
        throw new BerthException(
            Reason.NOT_FOUND, "there is no '" + patterns.text(i) + "' in the working folder");
      }
    }
    TarArchiveOutputStream tar = new TarArchiveOutputStream(out, "UTF-8");
    tar.setLongFileMode(TarArchiveOutputStream.LONGFILE_POSIX);
    tar.setBigNumberMode(TarArchiveOutputStream.BIGNUMBER_POSIX);
    tar.setAddPaxHeadersForNonAsciiNames(true);
    try (OpenFolder top = OpenFolder.of(PinnedPath.folder(folder))) {
      boolean all = start.stream().anyMatch(patterns::isComplete);
      new Packing(patterns, tar).pack(top, "", start, all);
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    tar.finish();
    tar.flush();
  }

  /**
   * Deletes a folder with all that is in it, however deep that goes and whatever permissions it
   * has; what is not there need not be deleted.
   *
   * @throws IOException also, before anything is deleted, if something is mounted there: that is
   *     not ours to delete
   */
  public static void delete(Path folder) throws IOException {
    Path absolute = folder.toAbsolutePath();
    if (!Files.exists(absolute, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    List<String> mounted = MountPoints.atOrBelow(absolute);
    if (!mounted.isEmpty()) {
      throw new IOException("a folder is mounted at " + mounted.get(0));
    }
    Path name = absolute.getFileName();
    try (SecureDirectoryStream<Path> parent = secure(absolute.getParent())) {
      boolean again = true;
      while (again && isFolder(parent, name)) {
        try (SecureDirectoryStream<Path> top = openToDelete(parent, name, absolute)) {
          again = clear(top, top, absolute, 0);
        } catch (NoSuchFileException e) {
          return;
        }
      }
      remove(parent, name);
    } catch (NoSuchFileException e) {
      // Not even the folder around it.
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
  }

  /**
   * Writes a file below a folder, in place of a file or a link that has its name. Only for folders
   * in which no program works.
   *
   * @param path names separated by single slashes; none of them is {@code .} or {@code ..}
   * @throws BerthException INVALID if a file or a link is where a folder has to be, or a folder
   *     where the file has to be
   */
  static void put(Path folder, String path, byte[] content) throws IOException {
    Path place = folder;
    for (Path name : Path.of(path)) {
      if (!place.equals(folder) && !Files.exists(place, LinkOption.NOFOLLOW_LINKS)) {
        Files.createDirectory(place);
        Files.setPosixFilePermissions(place, Permissions.of(EVERYONE_ENTERS));
      }
      if (!Files.isDirectory(place, LinkOption.NOFOLLOW_LINKS)) {
        throw inTheWay(path, folder.relativize(place) + " is not a folder");
      }
      place = place.resolve(name);
    }
    if (Files.isDirectory(place, LinkOption.NOFOLLOW_LINKS)) {
      throw inTheWay(path, "there is a folder with that name");
    }
    Files.deleteIfExists(place);
    Files.write(place, content, StandardOpenOption.CREATE_NEW);
    Files.setPosixFilePermissions(place, Permissions.of(EVERYONE_READS));
  }

  private static BerthException inTheWay(String path, String what) {
    return new BerthException(
        Reason.INVALID, "file '" + path + "' cannot be put beside the code: " + what);
  }

  /**
   * Gives a folder with all that is in it to a user and a group. Only for folders in which no
   * program works.
   */
  static void own(Path folder, int uid, int gid) throws IOException {
    Files.walkFileTree(
        folder,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
              throws IOException {
            Files.setAttribute(file, "unix:gid", gid, LinkOption.NOFOLLOW_LINKS);
            Files.setAttribute(file, "unix:uid", uid, LinkOption.NOFOLLOW_LINKS);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult postVisitDirectory(Path directory, IOException failure)
              throws IOException {
            super.postVisitDirectory(directory, failure);
            return visitFile(directory, null);
          }
        });
  }

  /** Finds out which patterns match anything, and looks no further than it takes. */
  private static void find(
      PathPatterns patterns,
      OpenFolder folder,
      String path,
      Set<PathPatterns.Place> places,
      Set<Integer> found)
      throws IOException {
    places.stream().filter(patterns::isComplete).forEach(place -> found.add(place.pattern()));
    if (places.stream().allMatch(place -> found.contains(place.pattern()))) {
      return;
    }
    checkDepth(path);
    for (Path child : folder.names) {
      String name = child.getFileName().toString();
      Set<PathPatterns.Place> below = patterns.below(places, name);
      below.removeIf(place -> found.contains(place.pattern()));
      if (!below.isEmpty()) {
        visit(
            folder,
            child.getFileName(),
            path + name,
            attributes -> {
              below.stream()
                  .filter(patterns::isComplete)
                  .forEach(place -> found.add(place.pattern()));
              if (attributes.isDirectory()) {
                try (OpenFolder inside = folder.below(child.getFileName())) {
                  find(patterns, inside, path + name + "/", below, found);
                }
              }
            });
      }
    }
  }

  private interface Visitor {
    void visit(PosixFileAttributes attributes) throws IOException;
  }

  /** Visits what is there under a name, unless it vanishes or is something that tars leave out. */
  private static void visit(OpenFolder folder, Path name, String path, Visitor visitor)
      throws IOException {
    try {
      PosixFileAttributes attributes =
          folder
              .names
              .getFileAttributeView(name, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
              .readAttributes();
      if (!attributes.isOther()) {
        visitor.visit(attributes);
      }
    } catch (NoSuchFileException | NotLinkException e) {
      // It was there a moment ago.
    } catch (AccessDeniedException e) {
      throw new BerthException(
          Reason.DENIED, "this server may not read '" + path + "' in the working folder", e);
    }
  }

  private static void checkDepth(String path) {
    if (path.chars().filter(character -> character == '/').count() > MAX_DEPTH) {
      throw new BerthException(
          Reason.EXHAUSTED,
          "the working folder has more than "
              + MAX_DEPTH
              + " folders inside of each other: '"
              + path.substring(0, Math.min(100, path.length()))
              + "...'");
    }
  }

  /** A folder that stays the same one while it is read. */
  private static final class OpenFolder implements AutoCloseable {
    private final PinnedPath pinned;
    private final SecureDirectoryStream<Path> names;

    private OpenFolder(PinnedPath pinned) throws IOException {
      this.pinned = pinned;
      this.names = secure(pinned.path());
    }

    /**
     * @throws NoSuchFileException if it is none, or not any more
     */
    static OpenFolder of(PinnedPath pinned) throws IOException {
      try {
        // A pipe would be waited for.
        if (!Files.isDirectory(pinned.path())) {
          throw new NoSuchFileException(pinned.path().toString());
        }
        return new OpenFolder(pinned);
      } catch (IOException | RuntimeException e) {
        pinned.close();
        throw e;
      }
    }

    OpenFolder below(Path name) throws IOException {
      return of(pinned.below(name));
    }

    @Override
    public void close() throws IOException {
      try (pinned) {
        names.close();
      }
    }
  }

  private static final class Packing {
    private final PathPatterns patterns;
    private final TarArchiveOutputStream tar;
    private final ByteBuffer buffer = ByteBuffer.allocate(1 << 16);

    Packing(PathPatterns patterns, TarArchiveOutputStream tar) {
      this.patterns = patterns;
      this.tar = tar;
    }

    /**
     * @param path of {@code inside}, from the top, with a slash at its end; empty at the top
     * @param chosen whether all in here is wanted, because a folder around it is
     */
    void pack(OpenFolder inside, String path, Set<PathPatterns.Place> places, boolean chosen)
        throws IOException {
      checkDepth(path);
      for (Path child : inside.names) {
        Path name = child.getFileName();
        Set<PathPatterns.Place> below = patterns.below(places, name.toString());
        boolean wanted = chosen || below.stream().anyMatch(patterns::isComplete);
        if (wanted || !below.isEmpty()) {
          String childPath = path + name;
          visit(
              inside,
              name,
              childPath,
              attributes -> {
                if (wanted) {
                  put(inside, name, childPath, attributes);
                }
                if (attributes.isDirectory()) {
                  try (OpenFolder deeper = inside.below(name)) {
                    pack(deeper, childPath + "/", below, wanted);
                  }
                }
              });
        }
      }
    }

    private void put(OpenFolder inside, Path name, String path, PosixFileAttributes attributes)
        throws IOException {
      if (attributes.isDirectory()) {
        putHeader(new TarArchiveEntry(path + "/", TarConstants.LF_DIR), attributes);
        tar.closeArchiveEntry();
      } else if (attributes.isSymbolicLink()) {
        TarArchiveEntry entry = new TarArchiveEntry(path, TarConstants.LF_SYMLINK);
        Path link = inside.pinned.path().resolve(name);
        entry.setLinkName(Files.readSymbolicLink(link).toString());
        putHeader(entry, attributes);
        tar.closeArchiveEntry();
      } else {
        try (PinnedPath pinned = inside.pinned.below(name)) {
          putFile(pinned.path(), path, attributes);
        }
      }
    }

    private void putFile(Path pinned, String path, PosixFileAttributes attributes)
        throws IOException {
      // Only now it is certain: a running program may have replaced it by a pipe.
      if (!Files.isRegularFile(pinned)) {
        throw new NoSuchFileException(path);
      }
      try (SeekableByteChannel file = Files.newByteChannel(pinned, StandardOpenOption.READ)) {
        TarArchiveEntry entry = new TarArchiveEntry(path, TarConstants.LF_NORMAL);
        entry.setSize(file.size());
        putHeader(entry, attributes);
        putContent(file, entry.getSize());
      }
      tar.closeArchiveEntry();
    }

    private void putHeader(TarArchiveEntry entry, PosixFileAttributes attributes)
        throws IOException {
      entry.setMode(Permissions.mode(attributes.permissions()));
      // Parts of seconds would cost a further kilobyte for each entry.
      entry.setLastModifiedTime(
          FileTime.from(attributes.lastModifiedTime().toInstant().truncatedTo(ChronoUnit.SECONDS)));
      entry.setUserName("");
      tar.putArchiveEntry(entry);
    }

    /** Writes exactly as much as was announced, whatever happens to the file meanwhile. */
    private void putContent(SeekableByteChannel file, long size) throws IOException {
      long left = size;
      while (left > 0) {
        buffer.clear().limit((int) Math.min(buffer.capacity(), left));
        if (file.read(buffer) < 0) {
          Arrays.fill(buffer.array(), (byte) 0);
          buffer.position(buffer.limit());
        }
        tar.write(buffer.array(), 0, buffer.position());
        left -= buffer.position();
      }
    }
  }

  /** Deletes what is in a folder; returns whether something was moved to the top instead. */
  private static boolean clear(
      SecureDirectoryStream<Path> top, SecureDirectoryStream<Path> folder, Path path, int depth)
      throws IOException {
    boolean moved = false;
    for (Path child : folder) {
      Path name = child.getFileName();
      try {
        if (!isFolder(folder, name)) {
          remove(folder, name);
        } else if (depth == MAX_DELETE_DEPTH) {
          folder.move(name, top, Path.of(UUID.randomUUID().toString()));
          moved = true;
        } else {
          try (var inside = openToDelete(folder, name, path.resolve(name))) {
            moved |= clear(top, inside, path.resolve(name), depth + 1);
          }
          remove(folder, name);
        }
      } catch (NoSuchFileException e) {
        // Somebody else deleted it.
      }
    }
    return moved;
  }

  private static boolean isFolder(SecureDirectoryStream<Path> parent, Path name)
      throws IOException {
    try {
      return attributes(parent, name).isDirectory();
    } catch (NoSuchFileException e) {
      return false;
    }
  }

  private static BasicFileAttributes attributes(SecureDirectoryStream<Path> parent, Path name)
      throws IOException {
    return parent
        .getFileAttributeView(name, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
        .readAttributes();
  }

  private static void remove(SecureDirectoryStream<Path> parent, Path name) throws IOException {
    try {
      if (isFolder(parent, name)) {
        parent.deleteDirectory(name);
      } else {
        parent.deleteFile(name);
      }
    } catch (NoSuchFileException e) {
      // Somebody else deleted it.
    }
  }

  /** Opens a folder, and gives its owner all permissions that it takes to clear it. */
  private static SecureDirectoryStream<Path> openToDelete(
      SecureDirectoryStream<Path> parent, Path name, Path path) throws IOException {
    SecureDirectoryStream<Path> folder;
    try {
      folder = openBelow(parent, name);
    } catch (AccessDeniedException e) {
      // Never as root. What cannot be opened, Java can only reach by its path.
      Files.setPosixFilePermissions(path, Permissions.of(OWNER_ALL));
      folder = openBelow(parent, name);
    }
    PosixFileAttributeView view = folder.getFileAttributeView(PosixFileAttributeView.class);
    int mode = Permissions.mode(view.readAttributes().permissions());
    if ((mode & OWNER_ALL) != OWNER_ALL) {
      view.setPermissions(Permissions.of(mode | OWNER_ALL));
    }
    return folder;
  }

  private static SecureDirectoryStream<Path> openBelow(
      SecureDirectoryStream<Path> parent, Path name) throws IOException {
    return parent.newDirectoryStream(name, LinkOption.NOFOLLOW_LINKS);
  }

  private static SecureDirectoryStream<Path> secure(Path folder) throws IOException {
    DirectoryStream<Path> stream = Files.newDirectoryStream(folder);
    if (stream instanceof SecureDirectoryStream<Path> secure) {
      return secure;
    }
    stream.close();
    throw new IOException("the file system of " + folder + " has no secure directory streams");
  }
}
