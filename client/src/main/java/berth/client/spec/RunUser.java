package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The user that a program runs as, by number: names mean nothing on another machine.
 *
 * @param uid user, 0 or more
 * @param gid group, 0 or more
 */
public record RunUser(int uid, int gid) {
  /**
   * @throws BerthException INVALID if a number is negative
   */
  public RunUser {
    if (uid < 0 || gid < 0) {
      throw new BerthException(
          Reason.INVALID, "user and group must not be negative: " + uid + ":" + gid);
    }
  }

  /**
   * The user and group of this process.
   *
   * @throws BerthException UNSUPPORTED if the system does not tell
   */
  public static RunUser current() {
    Path self = Path.of("/proc/self");
    try {
      return new RunUser(
          (int) Files.getAttribute(self, "unix:uid"), (int) Files.getAttribute(self, "unix:gid"));
    } catch (IOException | UnsupportedOperationException e) {
      throw new BerthException(
          Reason.UNSUPPORTED, "this system does not report the user of a process", e);
    }
  }
}
