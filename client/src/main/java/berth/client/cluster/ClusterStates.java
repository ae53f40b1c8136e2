package berth.client.cluster;

import berth.rpc.Messages;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/** What the states of supervised clusters mean, in the words of this package. */
public final class ClusterStates {
  private ClusterStates() {}

  /** Whether it is over and holds nothing. */
  public static boolean hasEnded(ClusterStatus cluster) {
    return cluster.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED;
  }

  public static TaskName name(TaskStatus task) {
    return new TaskName(task.getType(), task.getIndex());
  }

  /**
   * The tasks in their order, each with how many GPUs it asks for; -1: all of one server. None
   * before its supervisor has begun.
   */
  public static Map<TaskName, Integer> gpuCounts(ClusterStatus cluster) {
    Map<TaskName, Integer> counts = new LinkedHashMap<>();
    cluster.getTasksList().forEach(task -> counts.put(name(task), task.getGpuCount()));
    return counts;
  }

  /** The newest attempt, if there is one. */
  public static Optional<TaskAttempt> last(TaskStatus task) {
    int count = task.getAttemptsCount();
    return count == 0 ? Optional.empty() : Optional.of(task.getAttempts(count - 1));
  }

  public static boolean hasEnded(TaskAttempt attempt) {
    return attempt.getEnd() != TaskEnd.TASK_END_UNSPECIFIED || attempt.hasEndedAt();
  }

  /** Whether its program runs, as far as is known. */
  public static boolean runs(TaskAttempt attempt) {
    return attempt.hasStartedAt() && !hasEnded(attempt);
  }

  /** How an attempt ended that has. */
  public static TaskResult result(TaskName task, TaskAttempt attempt) {
    return new TaskResult(
        task,
        attempt.getServer(),
        attempt.getRunId(),
        end(attempt),
        attempt.hasExitCode() ? OptionalInt.of(attempt.getExitCode()) : OptionalInt.empty(),
        attempt.getWhy().isEmpty() ? why(attempt) : attempt.getWhy(),
        Messages.duration(attempt.getWallTime()),
        attempt.getNumber());
  }

  // A bare exit code is worth a word.
  private static String why(TaskAttempt attempt) {
    TaskResult.End end = end(attempt);
    return end == TaskResult.End.FINISHED && attempt.getExitCode() != 0
        ? "exit code " + attempt.getExitCode()
        : end.words();
  }

  /** How a cluster ended that has, with the last attempt of each task. */
  public static ClusterResult result(ClusterStatus cluster) {
    List<TaskResult> tasks = new ArrayList<>();
    Optional<TaskName> failed = Optional.empty();
    for (TaskStatus task : cluster.getTasksList()) {
      tasks.add(
          last(task)
              .filter(attempt -> attempt.hasStartedAt() || hasEnded(attempt))
              .map(attempt -> result(name(task), attempt))
              .orElseGet(() -> none(task)));
      if (name(task).toString().equals(cluster.getFailedTask())) {
        failed = Optional.of(name(task));
      }
    }
    boolean nothingStarted =
        cluster.getTasksList().stream().allMatch(task -> task.getAttemptsCount() == 0);
    return new ClusterResult(
        cluster.getName(),
        outcome(cluster),
        cluster.getWhy(),
        failed,
        nothingStarted ? List.of() : tasks,
        wallTime(cluster));
  }

  private static TaskResult none(TaskStatus task) {
    return new TaskResult(
        name(task),
        "",
        "",
        TaskResult.End.NOT_STARTED,
        OptionalInt.empty(),
        "never started",
        Duration.ZERO,
        0);
  }

  /** From when a cluster was handed over to its end, by a clock that somebody may have set. */
  public static Duration wallTime(ClusterStatus cluster) {
    if (!cluster.hasEndedAt()) {
      return Duration.ZERO;
    }
    Duration time =
        Duration.between(
            Messages.instant(cluster.getSubmittedAt()), Messages.instant(cluster.getEndedAt()));
    return time.isNegative() ? Duration.ZERO : time;
  }

  private static ClusterResult.Outcome outcome(ClusterStatus cluster) {
    return switch (cluster.getOutcome()) {
      case CLUSTER_OUTCOME_SUCCEEDED -> ClusterResult.Outcome.SUCCEEDED;
      case CLUSTER_OUTCOME_TIME_LIMIT -> ClusterResult.Outcome.TIME_LIMIT;
      case CLUSTER_OUTCOME_CANCELLED -> ClusterResult.Outcome.CANCELLED;
      case CLUSTER_OUTCOME_FAILED, CLUSTER_OUTCOME_UNSPECIFIED, UNRECOGNIZED ->
          ClusterResult.Outcome.FAILED;
    };
  }

  private static TaskResult.End end(TaskAttempt attempt) {
    return switch (attempt.getEnd()) {
      case TASK_END_FINISHED -> TaskResult.End.FINISHED;
      case TASK_END_STOPPED -> TaskResult.End.STOPPED;
      case TASK_END_CANCELLED -> TaskResult.End.CANCELLED;
      case TASK_END_TIME_LIMIT -> TaskResult.End.TIME_LIMIT;
      case TASK_END_OUT_OF_MEMORY -> TaskResult.End.OUT_OF_MEMORY;
      case TASK_END_NOT_STARTED -> TaskResult.End.NOT_STARTED;
      case TASK_END_UNSTARTABLE -> TaskResult.End.UNSTARTABLE;
      case TASK_END_SERVER_LOST -> TaskResult.End.SERVER_LOST;
      case TASK_END_IDLE -> TaskResult.End.IDLE;
      case TASK_END_RESTARTED -> TaskResult.End.RESTARTED;
      // A newer supervisor has other words for it, and an exit code says enough.
      case TASK_END_UNSPECIFIED, UNRECOGNIZED ->
          attempt.hasExitCode() ? TaskResult.End.FINISHED : TaskResult.End.SERVER_LOST;
    };
  }
}
