package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Which servers may be considered, in words that registries understand. */
final class ServerChoice {
  private ServerChoice() {}

  /**
   * @throws BerthException EXHAUSTED if none is left, and as {@link RegistryClient#listServers}
   */
  static ServerFilter of(RegistryClient registry, RunSpec spec) {
    ServerFilter filter = filter(spec.labels(), spec.servers(), spec.service());
    if (spec.exclude().isEmpty() && spec.memoryBytes() == 0 && spec.cpus() == 0) {
      return filter;
    }
    List<GpuServer> able =
        servers(registry, filter, spec.exclude()).stream()
            .filter(server -> server.memoryBytes() >= spec.memoryBytes())
            .filter(server -> server.cpus() >= spec.cpus())
            .toList();
    List<GpuServer> roomy =
        able.stream()
            .filter(
                server ->
                    server.freeMemoryBytes() == 0 || server.freeMemoryBytes() >= spec.memoryBytes())
            .toList();
    return named(filter, roomy.isEmpty() ? able : roomy);
  }

  /** The same for a reservation. */
  static ServerFilter of(RegistryClient registry, ReservationSpec spec) {
    ServerFilter filter = filter(spec.labels(), spec.servers(), spec.service());
    return spec.exclude().isEmpty()
        ? filter
        : named(filter, servers(registry, filter, spec.exclude()));
  }

  private static ServerFilter filter(
      Map<String, String> labels, Set<String> names, String service) {
    return ServerFilter.newBuilder()
        .putAllLabels(labels)
        .addAllNames(names)
        .setService(service)
        .build();
  }

  private static List<GpuServer> servers(
      RegistryClient registry, ServerFilter filter, Set<String> exclude) {
    return registry.listServers(filter).stream()
        .map(GpuServer::of)
        .filter(server -> !exclude.contains(server.name()))
        .toList();
  }

  // No names would mean all servers.
  private static ServerFilter named(ServerFilter filter, List<GpuServer> servers) {
    if (servers.isEmpty()) {
      throw new BerthException(
          Reason.EXHAUSTED,
          "no server is left that is named and not excluded, and has the labels, the service, the"
              + " memory and the CPUs that are asked for");
    }
    return filter.toBuilder()
        .clearNames()
        .addAllNames(servers.stream().map(GpuServer::name).toList())
        .build();
  }
}
