package berth.server.reservation;

import berth.host.lock.LockFile;
import java.nio.file.Path;

/** Whether another berthd of this machine lives. */
public final class OtherServer {
  private OtherServer() {}

  /**
   * Whether the berthd of a state folder is certainly dead: its lock can be read, and nobody has
   * it. One whose folder cannot be seen, because it is another user's, in a container or on a disk
   * that is not there, may well live. The lock is looked at, never taken: a berthd that starts at
   * this moment must not be in its way.
   */
  public static boolean isDead(Path stateFolder) {
    return LockFile.isProvenFree(ReservationStore.lockOf(stateFolder));
  }
}
