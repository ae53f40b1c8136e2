package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.OptionalInt;

/**
 * An open lock file. Its locks are open-file-description locks: they exclude the record locks that
 * {@code fasteners} takes, belong to this object rather than to the process, and live on in a child
 * that inherits the descriptor. Not safe for several threads.
 */
public final class LockFile implements AutoCloseable {
  /** Bytes of a file; a length of 0 reaches to the end of every possible file. */
  public record Range(long start, long length) {
    public static final Range WHOLE = new Range(0, 0);
  }

  private final Path path;
  private final int fd;
  private final boolean created;
  private boolean closed;

  private LockFile(Path path, int fd, boolean created) {
    this.path = path;
    this.fd = fd;
    this.created = created;
  }

  /**
   * Opens the file, and makes it if there is none.
   *
   * @throws BerthException if that is impossible; the message says why and what to do
   */
  public static LockFile open(Path path) {
    // For all users of the machine.
    return open(path, 0666);
  }

  /** The same; if it has to be made, with these permissions whatever the umask. */
  public static LockFile open(Path path, int mode) {
    int flags = LibC.O_RDWR | LibC.O_CLOEXEC | LibC.O_NOFOLLOW;
    for (int tried = 0; tried < LockFolder.MOST_TRIES; tried++) {
      try {
        // First without O_CREAT: in a sticky folder the kernel refuses that for the files of
        // others, root included.
        return new LockFile(path, LibC.INSTANCE.open(path.toString(), flags, 0), false);
      } catch (LastErrorException e) {
        if (e.getErrorCode() != LibC.ENOENT) {
          throw unusable(path, "open", e);
        }
      }
      try {
        int fd = LibC.INSTANCE.open(path.toString(), flags | LibC.O_CREAT | LibC.O_EXCL, mode);
        LockFile file = new LockFile(path, fd, true);
        try {
          // The umask must not shut out the other users of this machine.
          file.restrictTo(mode);
        } catch (BerthException e) {
          file.close();
          throw e;
        }
        return file;
      } catch (LastErrorException e) {
        if (e.getErrorCode() != LibC.EEXIST) {
          throw unusable(path, "make", e);
        }
      }
    }
    throw LockFolder.replacedAgainAndAgain(path);
  }

  /**
   * Whether there is such a file and nobody has a lock on it. Only looks: takes no lock, not even
   * for a moment, and needs no right to write. False also if that cannot be found out.
   */
  public static boolean isProvenFree(Path path) {
    // Without waiting, should it be a pipe.
    int flags = LibC.O_RDONLY | LibC.O_CLOEXEC | LibC.O_NOFOLLOW | LibC.O_NONBLOCK;
    try (LockFile file = new LockFile(path, LibC.INSTANCE.open(path.toString(), flags, 0), false)) {
      return file.foreign(0, 0) == null;
    } catch (LastErrorException e) {
      return false;
    }
  }

  /** A file that another process of ours opened and locked. */
  public static LockFile adopt(Path path, int fd) {
    return new LockFile(path, fd, false);
  }

  public Path path() {
    return path;
  }

  public int fd() {
    return fd;
  }

  /** Gives it these permissions, if it is ours. */
  public void restrictTo(int mode) {
    try {
      LibC.INSTANCE.fchmod(fd, mode);
    } catch (LastErrorException e) {
      throw unusable(path, "restrict", e);
    }
  }

  /** Whether opening it had to make it. */
  boolean created() {
    return created;
  }

  /** Locks the whole file if nobody else has a lock on it. */
  public boolean tryLock() {
    return tryLock(LibC.F_WRLCK, 0, 0);
  }

  /** Locks these, until one of them is somebody else's. */
  public boolean tryLock(List<Range> ranges) {
    return ranges.stream().allMatch(range -> tryLock(LibC.F_WRLCK, range.start, range.length));
  }

  public boolean tryLock(short type, long start, long length) {
    try {
      LibC.INSTANCE.fcntl(fd, LibC.F_OFD_SETLK, LibC.flock(type, start, length));
      return true;
    } catch (LastErrorException e) {
      if (e.getErrorCode() == LibC.EAGAIN || e.getErrorCode() == LibC.EACCES) {
        return false;
      }
      throw unusable(path, "lock", e);
    }
  }

  /**
   * Locks the whole file as soon as nobody else has a lock on it. False if cancelled before that.
   */
  boolean lock(LockWait wait) {
    return lock(wait, LibC.F_WRLCK, 0, 0);
  }

  boolean lock(LockWait wait, short type, long start, long length) {
    try {
      return wait.lock(fd, type, start, length);
    } catch (LastErrorException e) {
      throw unusable(path, "lock", e);
    }
  }

  /** Frees the whole file, for everyone who inherited the descriptor too. */
  public void unlock() {
    unlock(0, 0);
  }

  public void unlock(long start, long length) {
    LibC.INSTANCE.fcntl(fd, LibC.F_OFD_SETLK, LibC.flock(LibC.F_UNLCK, start, length));
  }

  /**
   * A lock of somebody else. The pid is empty for locks that belong to no process, such as Berth's
   * own.
   */
  record Foreign(OptionalInt pid, boolean exclusive, long start, long length) {}

  /** Some lock of somebody else in this range, or null. */
  Foreign foreign(long start, long length) {
    Memory flock = LibC.flock(LibC.F_WRLCK, start, length);
    LibC.INSTANCE.fcntl(fd, LibC.F_OFD_GETLK, flock);
    if (flock.getShort(0) == LibC.F_UNLCK) {
      return null;
    }
    int pid = flock.getInt(24);
    return new Foreign(
        pid > 0 ? OptionalInt.of(pid) : OptionalInt.empty(),
        flock.getShort(0) == LibC.F_WRLCK,
        flock.getLong(8),
        flock.getLong(16));
  }

  /**
   * Whether the path still leads to this file: a cleaner may have removed it, and somebody made
   * another one.
   */
  boolean isCurrent() {
    try {
      return Objects.equals(identity(Path.of("/proc/self/fd/" + fd)), identity(path));
    } catch (NoSuchFileException e) {
      return false;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Object identity(Path path) throws IOException {
    // Device and inode.
    return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
  }

  /** The first bytes of what the file says. */
  byte[] read(int length) {
    byte[] bytes = new byte[length];
    return Arrays.copyOf(bytes, pread(bytes, 0));
  }

  /** A number in the file; 0 if the file is shorter. */
  long readLong(long offset) {
    byte[] bytes = new byte[Long.BYTES];
    return pread(bytes, offset) < Long.BYTES ? 0 : ByteBuffer.wrap(bytes).getLong();
  }

  void writeLong(long offset, long value) {
    pwrite(ByteBuffer.allocate(Long.BYTES).putLong(value).array(), offset);
  }

  /** Replaces what the file says. */
  void write(byte[] bytes) {
    pwrite(bytes, 0);
    LibC.INSTANCE.ftruncate(fd, new NativeLong(bytes.length));
  }

  private int pread(byte[] bytes, long offset) {
    return LibC.INSTANCE
        .pread(fd, bytes, new NativeLong(bytes.length), new NativeLong(offset))
        .intValue();
  }

  private void pwrite(byte[] bytes, long offset) {
    try {
      LibC.INSTANCE.pwrite(fd, bytes, new NativeLong(bytes.length), new NativeLong(offset));
    } catch (LastErrorException e) {
      throw unusable(path, "write", e);
    }
  }

  /** Closes the descriptor, which frees the locks unless a child inherited it. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      LibC.INSTANCE.close(fd);
    }
  }

  private static BerthException unusable(Path path, String verb, LastErrorException e) {
    String why =
        switch (e.getErrorCode()) {
          case LibC.ENOENT -> "the folder " + path.getParent() + " does not exist";
          case LibC.EACCES -> "permission denied" + owner(path);
          case LibC.ENOSPC -> "the disk is full";
          case LibC.EROFS -> "the file system is read-only";
          default -> e.getMessage();
        };
    return new BerthException(
        Reason.UNAVAILABLE, "cannot " + verb + " the lock file " + path + ": " + why, e);
  }

  private static String owner(Path path) {
    try {
      return Files.exists(path)
          ? "; it belongs to "
              + Files.getOwner(path).getName()
              + ", and must be writable for all users (chmod 666)"
          : "; the folder " + path.getParent() + " is not writable";
    } catch (IOException e) {
      return "";
    }
  }
}
