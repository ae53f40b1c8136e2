package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.HashMap;
import java.util.Map;

/** Counts what is unfinished, and refuses more than there may be. Any thread may call. */
final class Admission {
  /**
   * How much may be unfinished, waiting or running.
   *
   * @param runs in all
   * @param runsOfOne of one owner
   * @param bytes of their requests together, which wait on disk
   */
  record Limits(int runs, int runsOfOne, long bytes) {}

  private final String serverName;
  private final Limits limits;
  private final Map<String, Integer> ofOwner = new HashMap<>();
  private int runs;
  private long bytes;

  Admission(String serverName, Limits limits) {
    this.serverName = serverName;
    this.limits = limits;
  }

  /**
   * Counts one more.
   *
   * @return to be run once when it is over
   * @throws BerthException EXHAUSTED if that is too many
   */
  synchronized Runnable admit(String owner, long size) {
    int own = ofOwner.getOrDefault(owner, 0);
    if (runs >= limits.runs) {
      throw full(runs + " runs are waiting or running on " + serverName, "--max-runs");
    }
    if (own >= limits.runsOfOne) {
      throw full(
          own + " runs of " + owner + " are waiting or running on " + serverName,
          "--max-runs-per-owner");
    }
    if (bytes + size > limits.bytes) {
      throw full(
          "code and files of the runs that wait or run on "
              + serverName
              + " take "
              + bytes
              + " bytes, and this run brings "
              + size,
          "--max-request-bytes");
    }
    return count(owner, size);
  }

  /** Counts one that was admitted before. */
  synchronized Runnable count(String owner, long size) {
    runs++;
    bytes += size;
    ofOwner.merge(owner, 1, Integer::sum);
    return () -> release(owner, size);
  }

  private synchronized void release(String owner, long size) {
    runs--;
    bytes -= size;
    ofOwner.computeIfPresent(owner, (who, count) -> count == 1 ? null : count - 1);
  }

  private static BerthException full(String what, String option) {
    return new BerthException(
        Reason.EXHAUSTED, what + ", more than allowed (" + option + "); try again later");
  }
}
