package berth.client.cluster;

import berth.client.spec.GpuServer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Which task goes to which server.
 *
 * @param servers the server of each task, in the order of the tasks
 */
public record ClusterPlan(Map<TaskName, GpuServer> servers) {
  public ClusterPlan {
    servers = java.util.Collections.unmodifiableMap(new LinkedHashMap<>(servers));
  }

  /** The tasks of each server, by its name. */
  public Map<String, List<TaskName>> byServer() {
    return servers.keySet().stream()
        .collect(
            Collectors.groupingBy(
                task -> servers.get(task).name(), java.util.TreeMap::new, Collectors.toList()));
  }
}
