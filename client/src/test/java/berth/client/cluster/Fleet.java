package berth.client.cluster;

import berth.client.spec.GpuLoad;
import berth.client.spec.GpuServer;
import berth.client.spec.ServerGpu;
import berth.client.spec.ServerGpu.State;
import berth.rpc.Address;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Servers as a registry would know them. */
final class Fleet {
  private final List<GpuServer> servers = new ArrayList<>();

  /** A server with GPUs of which the last {@code busy} are taken. */
  Fleet with(String name, int gpus, int busy, long freeGigabytes) {
    return with(name, gpus, busy, freeGigabytes, "V100", Map.of());
  }

  Fleet with(
      String name,
      int gpus,
      int busy,
      long freeGigabytes,
      String model,
      Map<String, String> labels) {
    List<ServerGpu> list = new ArrayList<>();
    for (int i = 0; i < gpus; i++) {
      list.add(
          new ServerGpu(
              name,
              i,
              "GPU-" + name + "-" + i,
              model,
              32L << 30,
              32L << 30,
              i < gpus - busy ? State.FREE : State.RESERVED,
              "",
              GpuLoad.UNKNOWN));
    }
    servers.add(
        new GpuServer(
            name,
            new Address(name, 18812),
            list,
            512L << 30,
            freeGigabytes << 30,
            16,
            labels,
            Set.of("tensorflow", "tensorflow-2.21"),
            "docker",
            true,
            true,
            false,
            0,
            ""));
    return this;
  }

  /** Changes the newest one. */
  Fleet draining() {
    GpuServer last = servers.remove(servers.size() - 1);
    servers.add(
        new GpuServer(
            last.name(),
            last.address(),
            last.gpus(),
            last.memoryBytes(),
            last.freeMemoryBytes(),
            last.cpus(),
            last.labels(),
            last.services(),
            last.runtime(),
            last.simulated(),
            last.canRun(),
            true,
            last.queueLength(),
            last.problem()));
    return this;
  }

  List<GpuServer> servers() {
    return servers;
  }

  /** Where the tasks of a type went, by index. */
  static List<String> of(ClusterPlan plan, String type) {
    Map<Integer, String> names = new HashMap<>();
    plan.servers()
        .forEach(
            (task, server) -> {
              if (task.type().equals(type)) {
                names.put(task.index(), server.name());
              }
            });
    return names.entrySet().stream()
        .sorted(Map.Entry.comparingByKey())
        .map(Map.Entry::getValue)
        .toList();
  }
}
