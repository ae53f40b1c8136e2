package berth.server.run.mount;

import com.sun.jna.LastErrorException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/**
 * What was found under a name, whatever a running program puts in its place meanwhile. It is not
 * opened: that would wait for the other end of a pipe, and follow a link. For one thread.
 */
public final class PinnedPath implements AutoCloseable {
  private static final int PIN = MountCalls.O_PATH | MountCalls.O_NOFOLLOW | MountCalls.O_CLOEXEC;

  private final int fd;

  private PinnedPath(int fd) {
    this.fd = fd;
  }

  /**
   * Pins a folder, whose parents are not a program's.
   *
   * @throws NoSuchFileException if it is no folder, or a link to one
   */
  public static PinnedPath folder(Path folder) throws IOException {
    try {
      return new PinnedPath(
          MountCalls.INSTANCE.open(folder.toString(), PIN | MountCalls.O_DIRECTORY));
    } catch (LastErrorException e) {
      throw failure(folder, e);
    }
  }

  /**
   * Pins what is in this folder under a name: also a link, not what it leads to.
   *
   * @throws NoSuchFileException if there is nothing, or this is no folder
   */
  public PinnedPath below(Path name) throws IOException {
    try {
      return new PinnedPath(MountCalls.INSTANCE.openat(fd, bytes(name), PIN));
    } catch (LastErrorException e) {
      throw failure(name, e);
    }
  }

  /** Leads to it for as long as it is pinned. Of a pinned link nothing but that can be read. */
  public Path path() {
    return Path.of("/proc/self/fd/" + fd);
  }

  @Override
  public void close() {
    MountCalls.INSTANCE.close(fd);
  }

  // A name is any bytes, whatever the locale makes of them. Java keeps them, and shows them so.
  private static byte[] bytes(Path name) {
    String escaped = name.toUri().getRawPath().replaceFirst("/$", "");
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (int i = escaped.lastIndexOf('/') + 1; i < escaped.length(); i++) {
      if (escaped.charAt(i) == '%') {
        bytes.write(Integer.parseInt(escaped.substring(i + 1, i + 3), 16));
        i += 2;
      } else {
        bytes.write(escaped.charAt(i));
      }
    }
    bytes.write(0);
    return bytes.toByteArray();
  }

  private static IOException failure(Path path, LastErrorException e) {
    return switch (e.getErrorCode()) {
      case MountCalls.ENOENT, MountCalls.ENOTDIR, MountCalls.ELOOP ->
          new NoSuchFileException(path.toString());
      case MountCalls.EACCES -> new AccessDeniedException(path.toString());
      default -> new FileSystemException(path.toString(), null, e.getMessage());
    };
  }
}
