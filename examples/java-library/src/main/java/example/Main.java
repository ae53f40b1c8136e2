package example;

import berth.client.Berth;
import berth.client.RunResult;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.spec.RunSpec;
import berth.client.spec.ServerGpu;

/** Lists the GPUs, runs a script on one of them, and then three that know each other. */
public final class Main {
  private static final String SCRIPT = "jobs/hello.py";

  private Main() {}

  public static void main(String[] args) {
    String registry = System.getenv("BERTH_REGISTRY");
    try (Berth berth = registry == null ? Berth.discover() : Berth.connect(registry)) {
      for (ServerGpu gpu : berth.gpus()) {
        System.out.println(
            gpu.server() + " [" + gpu.index() + "] " + gpu.model() + " " + gpu.state());
      }

      RunSpec one = RunSpec.builder().service("tensorflow").script(SCRIPT).gpus(1).build();
      RunResult result = berth.run(one, System.out::println);
      System.out.println(result.server() + ": exit code " + result.exitCode());

      ClusterRequest three =
          ClusterRequest.named("hello")
              .all(task -> task.service("tensorflow").script(SCRIPT))
              .task("chief", 1, chief -> chief.gpus(1))
              .task("worker", 2, worker -> worker.gpus(1))
              .build();
      try (Cluster cluster = berth.cluster(three, Main::show)) {
        System.out.println(cluster.await().outcome());
      }
    }
  }

  private static void show(ClusterEvent event) {
    if (event instanceof ClusterEvent.Output output) {
      System.out.print(output.task() + ": " + new String(output.data()));
    }
  }
}
