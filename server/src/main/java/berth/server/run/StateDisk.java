package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The disk that the state folder is on, and how much of it is left alone. Any thread may call. */
final class StateDisk {
  private static final Logger log = LoggerFactory.getLogger(StateDisk.class);
  private static final long DEFAULT_LEAST = 1L << 30;
  private static final int DEFAULT_SHARE = 20;

  private final String serverName;
  private final Path folder;
  private final Optional<Long> least;

  /** Bytes of a disk: those that this process may still use, and all. */
  record Space(long free, long total) {}

  /**
   * @param least bytes below which nothing new is taken; empty: 1 GiB, or a twentieth of the disk
   *     if that is less
   */
  StateDisk(String serverName, Path folder, Optional<Long> least) {
    this.serverName = serverName;
    this.folder = folder;
    this.least = least;
  }

  /**
   * The disk that a folder is on.
   *
   * @throws IOException if that cannot be found out, as of a folder that is not there
   */
  static Space space(Path folder) throws IOException {
    // Not Files.getFileStore, which looks for the mount: in a chroot that is not one it finds none.
    long total = folder.toFile().getTotalSpace();
    if (total == 0) {
      throw new IOException("no size of the disk of " + folder);
    }
    return new Space(folder.toFile().getUsableSpace(), total);
  }

  /**
   * Refuses something new that takes room.
   *
   * @throws BerthException UNAVAILABLE if there is too little
   */
  void check(String what) {
    try {
      Space space = space(folder);
      if (space.free() < least(space)) {
        throw new BerthException(
            Reason.UNAVAILABLE,
            what
                + " is refused: "
                + serverName
                + " has "
                + megabytes(space.free())
                + " left on the disk of "
                + folder
                + ", less than "
                + megabytes(least(space))
                + " (--least-free-disk); remove old runs with 'berth rm', or free space there");
      }
    } catch (IOException e) {
      throw new BerthException(Reason.UNAVAILABLE, "cannot look at the disk of " + folder, e);
    }
  }

  /** Whether there is so little left that whatever failed may have failed for that. */
  boolean isShort() {
    try {
      Space space = space(folder);
      return space.free() < least(space);
    } catch (IOException e) {
      log.warn("cannot look at the disk of {}: {}", folder, e.toString());
      return true;
    }
  }

  private long least(Space space) {
    return least.orElseGet(() -> Math.min(DEFAULT_LEAST, space.total() / DEFAULT_SHARE));
  }

  private static String megabytes(long bytes) {
    return bytes / (1 << 20) + " MiB";
  }
}
