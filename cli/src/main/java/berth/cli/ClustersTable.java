package berth.cli;

import berth.client.cluster.ClusterStates;
import berth.rpc.PlainText;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** Draws supervised clusters for people, one line each. */
final class ClustersTable {
  private static final List<String> HEADING =
      List.of(
          "NAME",
          "STATE",
          "TASKS",
          "GPUS",
          "OWNER",
          "SINCE",
          "TIME",
          "RESTARTS",
          "SUPERVISOR",
          "CLUSTER",
          "WHY");
  private static final int LAST_ENDED = 5;
  private static final Set<ClusterPhase> FORMED =
      EnumSet.of(
          ClusterPhase.CLUSTER_PHASE_STARTING,
          ClusterPhase.CLUSTER_PHASE_RUNNING,
          ClusterPhase.CLUSTER_PHASE_RESTARTING,
          ClusterPhase.CLUSTER_PHASE_STOPPING,
          ClusterPhase.CLUSTER_PHASE_KEPT);

  private final TimeText times;

  ClustersTable(TimeText times) {
    this.times = times;
  }

  /**
   * All clusters, or those that have not ended and the last few that have.
   *
   * @param clusters in the order in which they were handed over
   */
  String render(List<ClusterStatus> clusters, boolean all) {
    if (clusters.isEmpty()) {
      return "no clusters\n";
    }
    long ended = clusters.stream().filter(ClusterStates::hasEnded).count();
    long hidden = all ? 0 : Math.max(0, ended - LAST_ENDED);
    List<List<String>> rows = new ArrayList<>();
    rows.add(HEADING);
    long toHide = hidden;
    for (ClusterStatus cluster : clusters) {
      if (ClusterStates.hasEnded(cluster) && toHide > 0) {
        toHide--;
      } else {
        rows.add(row(cluster));
      }
    }
    return Columns.render(rows)
        + (hidden == 0 ? "" : "without " + hidden + " that ended earlier (shown by --all)\n");
  }

  private List<String> row(ClusterStatus cluster) {
    return List.of(
        PlainText.clean(cluster.getName()),
        state(cluster),
        tasks(cluster),
        gpus(cluster),
        owner(cluster),
        times.time(cluster.getSubmittedAt()),
        TimeText.span(time(cluster, times)),
        Integer.toString(cluster.getRestarts()),
        PlainText.clean(cluster.getServer()),
        PlainText.clean(cluster.getClusterId()),
        ClusterTable.cut(why(cluster)));
  }

  /** Where it is in its life, in a word or two. */
  static String state(ClusterStatus cluster) {
    return switch (cluster.getPhase()) {
      case CLUSTER_PHASE_UNSPECIFIED, CLUSTER_PHASE_WAITING -> "waiting";
      case CLUSTER_PHASE_STARTING -> "starting";
      case CLUSTER_PHASE_RUNNING -> "running";
      case CLUSTER_PHASE_RESTARTING -> "restarting";
      case CLUSTER_PHASE_STOPPING -> "stopping";
      case CLUSTER_PHASE_KEPT -> "kept";
      case CLUSTER_PHASE_ENDED -> outcome(cluster.getOutcome());
      case UNRECOGNIZED -> "?";
    };
  }

  /** What became of it, in a word or two; empty while nobody knows. */
  static String outcome(ClusterOutcome outcome) {
    return switch (outcome) {
      case CLUSTER_OUTCOME_SUCCEEDED -> "succeeded";
      case CLUSTER_OUTCOME_FAILED -> "failed";
      case CLUSTER_OUTCOME_TIME_LIMIT -> "time limit";
      case CLUSTER_OUTCOME_CANCELLED -> "cancelled";
      case CLUSTER_OUTCOME_UNSPECIFIED -> "";
      case UNRECOGNIZED -> "?";
    };
  }

  /** Why it ended or will, else what it waits for or why it starts again; empty if all is well. */
  static String why(ClusterStatus cluster) {
    return PlainText.clean(cluster.getWhy().isEmpty() ? cluster.getWaitingFor() : cluster.getWhy());
  }

  static String owner(ClusterStatus cluster) {
    return PlainText.clean(cluster.getOwner().getUser() + "@" + cluster.getOwner().getHost());
  }

  /** How long it has been there, from when it was handed over to its end. */
  static Duration time(ClusterStatus cluster, TimeText times) {
    return cluster.hasEndedAt()
        ? ClusterStates.wallTime(cluster)
        : times.since(cluster.getSubmittedAt());
  }

  private static String tasks(ClusterStatus cluster) {
    int all = cluster.getTasksCount();
    long running =
        cluster.getTasksList().stream()
            .flatMap(task -> ClusterStates.last(task).stream())
            .filter(ClusterStates::runs)
            .count();
    return FORMED.contains(cluster.getPhase()) && running < all
        ? running + "/" + all + " run"
        : Integer.toString(all);
  }

  // What it has, or had at last, says more than what it asks for.
  private static String gpus(ClusterStatus cluster) {
    int has = 0;
    int counted = 0;
    int whole = 0;
    boolean placed = FORMED.contains(cluster.getPhase()) || ClusterStates.hasEnded(cluster);
    for (TaskStatus task : cluster.getTasksList()) {
      TaskAttempt last = ClusterStates.last(task).orElse(TaskAttempt.getDefaultInstance());
      placed &= last.getNumber() > 0;
      has += last.getGpusCount();
      counted += Math.max(0, task.getGpuCount());
      whole += task.getGpuCount() < 0 ? 1 : 0;
    }
    if (placed) {
      return Integer.toString(has);
    }
    String all = whole == 0 ? "" : "all of " + (whole == 1 ? "a server" : whole + " servers");
    return whole == 0 ? Integer.toString(counted) : counted == 0 ? all : counted + ", " + all;
  }
}
