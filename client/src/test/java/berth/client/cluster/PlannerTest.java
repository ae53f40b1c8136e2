package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.cluster.ClusterRequest.Layout;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PlannerTest {
  private static ClusterRequest.Builder cluster() {
    return ClusterRequest.named("mnist").all(task -> task.service("tensorflow").command("train"));
  }

  /** The example of the old grid: eight hosts, four of each kind. */
  @Test
  void parameterServersGoWhereMemoryIsAndWorkersWhereGpusAre() {
    Fleet grid =
        new Fleet()
            .with("cippy01", 0, 0, 64)
            .with("cippy14", 1, 1, 128)
            .with("cippy16", 0, 0, 96)
            .with("cippy17", 1, 1, 72)
            .with("cippy18", 4, 0, 16)
            .with("cippy19", 2, 0, 31)
            .with("cippy20", 2, 0, 31)
            .with("cippy21", 1, 0, 31);
    ClusterRequest request =
        cluster()
            .task("worker", 4, worker -> worker.gpus(1).memory("2g"))
            .task("ps", 4, ps -> ps.memory("16g"))
            .build();

    ClusterPlan plan = Planner.place(request, grid.servers());

    assertThat(Fleet.of(plan, "worker"))
        .containsExactly("cippy18", "cippy19", "cippy20", "cippy21");
    assertThat(Fleet.of(plan, "ps")).containsExactly("cippy14", "cippy16", "cippy17", "cippy01");
  }

  /** The example of tf-yarn: a chief, eight workers, a parameter server and an evaluator. */
  @Test
  void aChiefAndItsWorkersShareServersWhenThereAreFewOfThem() {
    Fleet fleet =
        new Fleet().with("gpu1", 4, 0, 100).with("gpu2", 4, 0, 100).with("gpu3", 4, 2, 200);
    ClusterRequest request =
        cluster()
            .task("chief", 1, task -> task.gpus(1).memory("2g").cpus(4))
            .task("worker", 8, task -> task.gpus(1).memory("2g").cpus(4))
            .task("ps", 1, task -> task.memory("2g").cpus(8))
            .task("evaluator", 1, task -> task.memory("1g").cpus(1))
            .build();

    ClusterPlan plan = Planner.place(request, fleet.servers());

    assertThat(plan.byServer().get("gpu1")).filteredOn(t -> !t.type().equals("ps")).hasSize(4);
    assertThat(Fleet.of(plan, "chief")).containsExactly("gpu1");
    assertThat(Fleet.of(plan, "worker").stream().filter("gpu3"::equals)).hasSize(2);
    assertThat(Fleet.of(plan, "ps")).containsExactly("gpu3");
    assertThat(Fleet.of(plan, "evaluator")).containsExactly("gpu3");
  }

  @Test
  void spreadsOrPacksAsAsked() {
    Fleet fleet = new Fleet().with("a", 4, 0, 10).with("b", 4, 0, 10).with("c", 2, 0, 10);
    ClusterRequest.Builder two = cluster().task("worker", 2, worker -> worker.gpus(1));

    assertThat(Fleet.of(Planner.place(two.build(), fleet.servers()), "worker"))
        .containsExactly("a", "b");
    assertThat(Fleet.of(Planner.place(two.layout(Layout.PACK).build(), fleet.servers()), "worker"))
        .containsExactly("c", "c");
  }

  @Test
  void whatFitsFewServersIsPlacedFirst() {
    Fleet fleet =
        new Fleet()
            .with("a", 2, 0, 10, "A100", Map.of("room", "b12"))
            .with("b", 2, 0, 10, "V100", Map.of());
    ClusterRequest request =
        cluster()
            .task("worker", 2, worker -> worker.gpus(1))
            .task("chief", 1, chief -> chief.gpus(2).label("room", "b12"))
            .build();

    ClusterPlan plan = Planner.place(request, fleet.servers());

    assertThat(Fleet.of(plan, "chief")).containsExactly("a");
    assertThat(Fleet.of(plan, "worker")).containsExactly("b", "b");
  }

  @Test
  void respectsModelsNamedServersAndExclusions() {
    Fleet fleet =
        new Fleet()
            .with("a", 4, 0, 10, "NVIDIA A100", Map.of())
            .with("b", 4, 0, 10, "NVIDIA V100", Map.of())
            .with("c", 4, 0, 10, "NVIDIA V100", Map.of());
    ClusterRequest request =
        cluster()
            .task("worker", 1, task -> task.gpus(1).gpuModel("v100").exclude("b"))
            .task("chief", 1, task -> task.gpus(1).servers("b"))
            .build();

    ClusterPlan plan = Planner.place(request, fleet.servers());

    assertThat(Fleet.of(plan, "worker")).containsExactly("c");
    assertThat(Fleet.of(plan, "chief")).containsExactly("b");
  }

  @Test
  void saysWhichTaskHasNoRoomNowAndWhatEachServerLacks() {
    Fleet fleet =
        new Fleet().with("a", 4, 3, 10).with("b", 4, 4, 10).with("c", 4, 0, 10).draining();
    ClusterRequest request = cluster().task("worker", 2, worker -> worker.gpus(1)).build();

    assertThatThrownBy(() -> Planner.place(request, fleet.servers()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED))
        .hasMessage(
            "there is no room for worker:1, which needs 1 GPU, the service tensorflow, after 1 of 2"
                + " tasks: a has 0 of 4 GPUs free after 1 task; b has 0 of"
                + " 4 GPUs free; c drains");
  }

  @Test
  void saysWhatNoServerWillEverHave() {
    Fleet fleet = new Fleet().with("a", 4, 3, 10).with("b", 4, 4, 10);
    ClusterRequest request =
        cluster().task("worker", 1, worker -> worker.gpus(8).memory("64g")).build();

    assertThatThrownBy(() -> Planner.place(request, fleet.servers()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessage(
            "there is no server for worker:0, which needs 8 GPUs, 64 GiB of memory, the service"
                + " tensorflow: a has 4 of 4 such GPUs; b has 4 of 4 such GPUs");
  }

  @Test
  void memoryOfPlacedTasksIsNotGivenTwice() {
    Fleet fleet = new Fleet().with("a", 0, 0, 20).with("b", 0, 0, 10);
    ClusterRequest request =
        cluster()
            .layout(Layout.PACK)
            .task("worker", 1, worker -> worker.memory("8g"))
            .task("ps", 2, ps -> ps.memory("8g"))
            .build();

    ClusterPlan plan = Planner.place(request, fleet.servers());

    assertThat(plan.byServer().get("a")).hasSize(2);
    assertThat(plan.byServer().get("b")).hasSize(1);
  }

  @Test
  void allGpusOfAServerAreOnlyThereWhenNobodyUsesAny() {
    Fleet fleet = new Fleet().with("a", 4, 1, 10).with("b", 2, 0, 10);
    ClusterRequest request = cluster().task("worker", 1, worker -> worker.allGpus()).build();

    assertThat(Fleet.of(Planner.place(request, fleet.servers()), "worker")).containsExactly("b");
  }

  @Test
  void withoutServersThereIsNothingToWaitFor() {
    ClusterRequest request = cluster().task("worker", 1, worker -> worker.gpus(1)).build();

    assertThatThrownBy(() -> Planner.place(request, new Fleet().servers()))
        .hasMessageContaining("no server is registered");
  }

  @Test
  void tasksThatAskForNoMemoryTakeItFromNobody() {
    Fleet fleet = new Fleet().with("gpu1", 4, 0, 4);
    ClusterRequest request =
        cluster()
            .task("worker", 4, worker -> worker.gpus(1))
            .task("ps", 1, ps -> ps.memory("2g"))
            .build();

    assertThat(Planner.place(request, fleet.servers()).byServer()).containsOnlyKeys("gpu1");
  }
}
