package berth.cli;

import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterPlan;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import berth.client.spec.GpuServer;
import berth.rpc.Address;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Stream;

/** A cluster of which a test tells what happens. */
final class SampleCluster {
  static final TaskName CHIEF = new TaskName("chief", 0);
  static final TaskName WORKER_0 = new TaskName("worker", 0);
  static final TaskName WORKER_1 = new TaskName("worker", 1);
  static final TaskName PS = new TaskName("ps", 0);

  private SampleCluster() {}

  /** A chief, two workers and a parameter server. */
  static ClusterRequest request() {
    return builder().build();
  }

  static ClusterRequest.Builder builder() {
    return ClusterRequest.named("mnist")
        .all(run -> run.image("tf:2"))
        .task("chief", 1, run -> run.gpus(1))
        .task("worker", 2, run -> run.allGpus())
        .task("ps", 1, run -> {});
  }

  /** Each task on a server of its own: gpu0 with 10.0.0.0:2220 and so on. */
  static ClusterEvent.Formed formed(ClusterRequest request) {
    Map<TaskName, GpuServer> servers = new LinkedHashMap<>();
    Map<TaskName, Address> addresses = new LinkedHashMap<>();
    for (TaskName task : request.tasks()) {
      int i = servers.size();
      Address address = new Address("10.0.0." + i, 2220 + i);
      servers.put(task, server("gpu" + i, address));
      addresses.put(task, address);
    }
    return new ClusterEvent.Formed(new ClusterPlan(servers), new ClusterSpec(addresses));
  }

  private static GpuServer server(String name, Address address) {
    return new GpuServer(
        name, address, List.of(), 0, 0, 1, Map.of(), Set.of(), "docker", false, true, false, 0, "");
  }

  static ClusterEvent out(TaskName task, String text) {
    return new ClusterEvent.Output(task, false, text.getBytes(StandardCharsets.UTF_8));
  }

  static ClusterEvent err(TaskName task, String text) {
    return new ClusterEvent.Output(task, true, text.getBytes(StandardCharsets.UTF_8));
  }

  static ClusterEvent started(TaskName task, Integer... gpus) {
    return new ClusterEvent.Started(task, "gpu1", "run-" + task.index(), List.of(gpus));
  }

  static TaskResult finished(TaskName task, int exitCode) {
    return result(task, TaskResult.End.FINISHED, exitCode, "exit " + exitCode);
  }

  static TaskResult result(TaskName task, TaskResult.End end, int exitCode, String why) {
    return new TaskResult(
        task,
        "gpu1",
        "run-" + task.index(),
        end,
        OptionalInt.of(exitCode),
        why,
        Duration.ofMillis(61_234),
        1);
  }

  static ClusterEvent ended(TaskName task) {
    return new ClusterEvent.Ended(finished(task, 0));
  }

  static ClusterResult result(ClusterResult.Outcome outcome, String why, TaskResult... tasks) {
    return new ClusterResult(
        "mnist",
        outcome,
        why,
        Stream.of(tasks).filter(task -> !task.well()).map(TaskResult::task).findFirst(),
        List.of(tasks),
        Duration.ofSeconds(300));
  }
}
