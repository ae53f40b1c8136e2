package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

class ClusterResultTest {
  private static final TaskName WORKER = new TaskName("worker", 0);
  private static final TaskName PS = new TaskName("ps", 0);
  private static final TaskName TENSORBOARD = new TaskName("tensorboard", 0);

  private static TaskResult ended(TaskName task, End end, OptionalInt code) {
    return new TaskResult(task, "gpu1", "run-1", end, code, "", Duration.ZERO, 1);
  }

  private static TaskResult exited(TaskName task, int code) {
    return ended(task, End.FINISHED, OptionalInt.of(code));
  }

  private static int exitCode(Outcome outcome, Optional<TaskName> failed, TaskResult... tasks) {
    return new ClusterResult("mnist", outcome, "", failed, List.of(tasks), Duration.ZERO)
        .exitCode();
  }

  @Test
  void theExitCodeIsThatOfTheTaskThatFailedFirst() {
    assertThat(exitCode(Outcome.FAILED, Optional.of(PS), exited(WORKER, 1), exited(PS, 3)))
        .isEqualTo(3);
  }

  @Test
  void aProgramThatRanOutOfMemoryHasAnExitCodeToo() {
    TaskResult killed = ended(WORKER, End.OUT_OF_MEMORY, OptionalInt.of(137));

    assertThat(exitCode(Outcome.FAILED, Optional.of(WORKER), killed)).isEqualTo(137);
  }

  @Test
  void aTensorBoardThatFailedIsNotToBlame() {
    TaskResult lost = ended(WORKER, End.SERVER_LOST, OptionalInt.empty());

    assertThat(exitCode(Outcome.FAILED, Optional.of(WORKER), exited(TENSORBOARD, 1), lost))
        .isEqualTo(125);
    assertThat(exitCode(Outcome.CANCELLED, Optional.empty(), exited(TENSORBOARD, 1)))
        .isEqualTo(125);
    assertThat(exitCode(Outcome.SUCCEEDED, Optional.empty(), exited(TENSORBOARD, 1))).isZero();
  }
}
