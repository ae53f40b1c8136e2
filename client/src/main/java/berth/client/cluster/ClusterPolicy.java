package berth.client.cluster;

import berth.client.spec.Warning;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.Optional;

/**
 * How a cluster is kept alive, and how it ends.
 *
 * @param maxRestarts how often tasks, or all of it, may be started again because something failed
 * @param wholeRestarts whether the whole cluster restarts when a task would, rather than that task
 * @param restartPause before the first restart; each further one that follows soon waits twice as
 *     long, up to five minutes
 * @param success when the training counts as done
 * @param cleaning what is stopped at the end
 * @param timeToLive how long it is known after its end, and how long tasks go on that are kept
 *     running; empty: a week, and a day
 * @param warning the signal that tells tasks that the time is nearly over: those that train or
 *     evaluate, unless a type says something else
 * @param resubmissions how often it starts again when its time is over
 * @param checkpoints a folder of all servers that every task sees and that survives them; empty:
 *     none
 */
public record ClusterPolicy(
    int maxRestarts,
    boolean wholeRestarts,
    Duration restartPause,
    SuccessRule success,
    Cleaning cleaning,
    Optional<Duration> timeToLive,
    Optional<Warning> warning,
    int resubmissions,
    String checkpoints) {
  static final Duration USUAL_TIME_TO_LIVE = Duration.ofDays(7);
  static final Duration USUAL_TIME_TO_LOOK = Duration.ofDays(1);
  private static final Duration LONGEST_PAUSE = Duration.ofMinutes(5);
  private static final Duration LONG_RUN = Duration.ofMinutes(10);
  private static final int MOST = 1_000_000;

  /** What holds for a cluster of which nothing else is said. */
  public static final ClusterPolicy USUAL =
      new ClusterPolicy(
          50,
          false,
          Duration.ofSeconds(1),
          SuccessRule.USUAL,
          Cleaning.RUNNING,
          Optional.empty(),
          Optional.empty(),
          0,
          "");

  public ClusterPolicy {
    check(maxRestarts >= 0 && maxRestarts <= MOST, maxRestarts + " restarts asked");
    check(
        resubmissions >= 0 && resubmissions <= MOST,
        resubmissions + " resubmissions asked; ask for 0 or more");
    check(!restartPause.isNegative(), "the pause before a restart is negative");
    check(
        checkpoints.isEmpty() || checkpoints.startsWith("/"),
        "the folder for checkpoints, " + checkpoints + ", must be an absolute path");
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }

  /**
   * How long to wait before something restarts.
   *
   * @param quickEnds how many ends came soon after their starts, the last one included
   */
  Duration pause(int quickEnds) {
    int doublings = Math.min(Math.max(quickEnds - 1, 0), 20);
    Duration pause = restartPause.multipliedBy(1L << doublings);
    return pause.compareTo(LONGEST_PAUSE) < 0 ? pause : LONGEST_PAUSE;
  }

  /** Whether something ran for so long that what happened before does not count any more. */
  static boolean ranLong(Duration time) {
    return time.compareTo(LONG_RUN) >= 0;
  }

  Duration timeToLook() {
    return timeToLive.orElse(USUAL_TIME_TO_LOOK);
  }
}
