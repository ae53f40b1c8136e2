package berth.client.cluster;

import berth.rpc.ExitCode;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * How a cluster ended.
 *
 * @param why which task failed and how, or who stopped it; empty if all went well
 * @param failed the task that failed first, because of which the others were stopped
 * @param tasks how each task ended, in their order; none if nothing was ever started
 * @param wallTime from the request to the end
 */
public record ClusterResult(
    String name,
    Outcome outcome,
    String why,
    Optional<TaskName> failed,
    List<TaskResult> tasks,
    Duration wallTime) {

  /** What became of the training. */
  public enum Outcome {
    /** It is done. */
    SUCCEEDED,
    /** A task failed, or not all could be started. */
    FAILED,
    /** Its time was over. */
    TIME_LIMIT,
    /** Somebody stopped it. */
    CANCELLED
  }

  public ClusterResult {
    tasks = List.copyOf(tasks);
  }

  public boolean succeeded() {
    return outcome == Outcome.SUCCEEDED;
  }

  /**
   * What a program that stands for the cluster should exit with: 0 only if the training succeeded,
   * else the exit code of the task that failed first; 124 if the time was over or its GPUs were
   * idle, 125 if no program is to blame.
   */
  public int exitCode() {
    return exitCode(outcome, failed, tasks);
  }

  static int exitCode(Outcome outcome, Optional<TaskName> failed, List<TaskResult> tasks) {
    return switch (outcome) {
      case SUCCEEDED -> ExitCode.OK;
      case TIME_LIMIT -> ExitCode.TIME_LIMIT;
      case FAILED, CANCELLED ->
          tasks.stream()
              .filter(task -> failed.equals(Optional.of(task.task())))
              .flatMapToInt(ClusterResult::exitCode)
              .filter(code -> code != ExitCode.OK)
              .findFirst()
              .orElse(ExitCode.BERTH_FAILED);
    };
  }

  // As `berth run` has it.
  private static IntStream exitCode(TaskResult task) {
    return task.end() == TaskResult.End.IDLE
        ? IntStream.of(ExitCode.TIME_LIMIT)
        : task.exitCode().stream();
  }
}
