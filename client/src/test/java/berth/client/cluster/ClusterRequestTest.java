package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class ClusterRequestTest {
  private static ClusterRequest.Builder cluster() {
    return ClusterRequest.named("mnist").all(task -> task.image("tf:1").command("train"));
  }

  @Test
  void whatIsSaidOfOneTypeWinsOverWhatIsSaidOfAll() {
    ClusterRequest request =
        cluster()
            .all(task -> task.env("A", "1").env("B", "1"))
            .task("worker", 2, worker -> worker.env("B", "2").service("tensorflow"))
            .build();

    assertThat(request.group(new TaskName("worker", 0)).run().env())
        .containsEntry("A", "1")
        .containsEntry("B", "2");
    assertThat(request.groups().get(0).run().service()).isEqualTo("tensorflow");
    assertThat(request.groups().get(0).run().image()).isEmpty();
    assertThat(request.tasks()).hasToString("[worker:0, worker:1]");
  }

  @Test
  void parameterServersAndTensorBoardAreStoppedAtTheEndUnlessOtherwiseSaid() {
    ClusterRequest request =
        cluster()
            .task("chief", 1, task -> {})
            .task("worker", 1, task -> {})
            .task("ps", 1, task -> {})
            .task("tensorboard", 1, task -> {})
            .task("evaluator", 1, task -> {})
            .background("worker", true)
            .build();

    assertThat(request.groups())
        .extracting(TaskGroup::background)
        .containsExactly(false, true, true, true, false);
    assertThat(request.groups())
        .extracting(TaskGroup::trains)
        .containsExactly(true, false, false, false, false);
  }

  @Test
  void tensorBoardRunsItselfRatherThanTheTraining() {
    ClusterRequest request =
        cluster().task("worker", 1, task -> {}).task("tensorboard", 1, task -> {}).build();

    assertThat(request.groups().get(1).run().program().words()).contains("tensorboard.main");
  }

  @Test
  void saysWhatIsWrong() {
    assertThatThrownBy(() -> cluster().build()).hasMessage("the cluster mnist has no tasks");
    assertThatThrownBy(() -> cluster().task("ps", 1, task -> {}).build())
        .hasMessage(
            "the cluster mnist has only background tasks: one must end by itself, for example"
                + " 'worker'");
    assertThatThrownBy(() -> cluster().task("Worker", 1, task -> {}).build())
        .hasMessage(
            "'Worker' is not a type of tasks: lower-case letters, digits, - and _, as in worker or"
                + " ps");
    assertThatThrownBy(() -> cluster().task("worker", 0, task -> {}).build())
        .hasMessage("'worker' asks for 0 instances; at least one is needed");
    assertThatThrownBy(() -> cluster().task("chief", 2, task -> {}).build())
        .hasMessage("'chief' asks for 2 instances, but a cluster has one at most");
    assertThatThrownBy(
            () ->
                cluster()
                    .task("master", 1, task -> {})
                    .task("evaluator", 1, task -> {})
                    .task("worker", 1, task -> {})
                    .build())
        .hasMessageContaining("'master' is the old name of 'chief'");
    assertThatThrownBy(() -> cluster().task("worker", 1, task -> task.gpuModel("A100")).build())
        .hasMessage("'worker': a GPU model or memory requires a number of GPUs");
    assertThatThrownBy(() -> cluster().name("a/b").task("worker", 1, task -> {}).build())
        .hasMessageContaining("'a/b' is not the name of a cluster");
  }

  @Test
  void timesThatCannotBeMeantAreRefused() {
    ClusterRequest.Builder request = cluster().task("worker", 1, task -> {});

    assertThatThrownBy(() -> request.startTimeout(Duration.ZERO).build())
        .isInstanceOf(BerthException.class)
        .hasMessage("the start timeout is PT0S, which is too short");
    assertThatThrownBy(() -> request.startTimeout(Duration.ofSeconds(Long.MAX_VALUE)).build())
        .isInstanceOf(BerthException.class)
        .hasMessageEndingWith("which is too long");
    request.startTimeout(Duration.ofMinutes(1));
    assertThatThrownBy(() -> request.evaluatorGrace(Duration.ofSeconds(-1)).build())
        .hasMessage("the evaluator grace is PT-1S, which is too short");
  }
}
