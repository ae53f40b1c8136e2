package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.TaskResult.End;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

/** When a training is done. */
class TrainingGoalTest {
  private static final TaskName CHIEF = new TaskName("chief", 0);
  private static final TaskName FIRST = new TaskName("worker", 0);
  private static final TaskName SECOND = new TaskName("worker", 1);

  private final Map<TaskName, TaskResult> ended = new HashMap<>();

  private static ClusterPolicy policy(SuccessRule success) {
    ClusterPolicy usual = ClusterPolicy.USUAL;
    return new ClusterPolicy(
        usual.maxRestarts(),
        usual.wholeRestarts(),
        usual.restartPause(),
        success,
        usual.cleaning(),
        Optional.empty(),
        Optional.empty(),
        0,
        "");
  }

  private static ClusterRequest.Builder workers() {
    return ClusterRequest.named("c")
        .all(task -> task.image("a"))
        .task("worker", 2, worker -> {})
        .task("ps", 1, ps -> {});
  }

  private static ClusterRequest.Builder withChief() {
    return workers().task("chief", 1, chief -> {});
  }

  private void end(TaskName task, int code) {
    ended.put(
        task,
        new TaskResult(
            task, "gpu1", "run-1", End.FINISHED, OptionalInt.of(code), "", Duration.ZERO, 1));
  }

  @Test
  void workersThatOutliveTheirChiefAreToldAndThoseThatEndedAreNot() {
    TrainingGoal goal = new TrainingGoal(withChief().build());
    end(FIRST, 0);
    assertThat(goal.outlivingChief(ended)).isEmpty();

    end(CHIEF, 0);

    assertThat(goal.outlivingChief(ended)).containsExactly(SECOND);
    assertThat(goal.reached(ended)).isFalse();
    end(SECOND, 0);
    assertThat(goal.outlivingChief(ended)).isEmpty();
    assertThat(goal.reached(ended)).isTrue();
  }

  @Test
  void nobodyOutlivesAChiefThatFailedOrWhereThereIsNone() {
    end(CHIEF, 1);
    assertThat(new TrainingGoal(withChief().build()).outlivingChief(ended)).isEmpty();
    ended.clear();
    end(FIRST, 0);
    assertThat(new TrainingGoal(workers().build()).outlivingChief(ended)).isEmpty();
  }

  @Test
  void whoWantsAllWorkersToFinishWaitsForThemHoweverLong() {
    end(CHIEF, 0);
    ClusterRequest strict = withChief().policy(policy(SuccessRule.parse("workers"))).build();

    assertThat(new TrainingGoal(strict).outlivingChief(ended)).isEmpty();
    assertThat(new TrainingGoal(strict).reached(ended)).isFalse();
  }
}
