package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

/**
 * Which servers may be considered.
 *
 * @param labels what a server must have
 * @param names those that may be considered; empty: all
 * @param exclude names of servers that may not
 */
public record ServerChoice(Map<String, String> labels, Set<String> names, Set<String> exclude) {
  public ServerChoice {
    labels = Map.copyOf(labels);
    names = Set.copyOf(names);
    exclude = Set.copyOf(exclude);
  }

  /**
   * Where a run may go, in words that registries understand.
   *
   * @throws BerthException INVALID if its GPUs are not clear, EXHAUSTED if no server is left, and
   *     as {@link ServerSource#listServers}
   */
  static ServerFilter of(ServerSource source, RunSpec spec) {
    ServerChoice choice = spec.resources().servers();
    choice.checkClear(source, spec.resources().gpus());
    ServerFilter filter = choice.filter(spec.service());
    RunLimits limits = spec.limits();
    if (choice.exclude.isEmpty() && limits.memoryBytes() == 0 && limits.cpus() == 0) {
      return filter;
    }
    // Of a server without a registry the size is not known: it says itself what is too much.
    List<GpuServer> able =
        choice.servers(
            source,
            filter,
            server ->
                (server.memoryBytes() == 0 || server.memoryBytes() >= limits.memoryBytes())
                    && (server.cpus() == 0 || server.cpus() >= limits.cpus()));
    List<GpuServer> roomy =
        able.stream()
            .filter(
                server ->
                    server.freeMemoryBytes() == 0
                        || server.freeMemoryBytes() >= limits.memoryBytes())
            .toList();
    return named(filter, roomy.isEmpty() ? able : roomy);
  }

  /** The same for a reservation. */
  static ServerFilter of(ServerSource source, ReservationSpec spec) {
    ServerChoice choice = spec.resources().servers();
    choice.checkClear(source, spec.resources().gpus());
    ServerFilter filter = choice.filter(spec.service());
    return choice.exclude.isEmpty()
        ? filter
        : named(filter, choice.servers(source, filter, server -> true));
  }

  // Every server has a GPU 0.
  private void checkClear(ServerSource source, GpuChoice gpus) {
    if (gpus.hasIndices() && source.registry().isPresent() && names.size() != 1) {
      throw new BerthException(
          Reason.INVALID,
          "GPUs are asked for by index ("
              + String.join(", ", gpus.exactly())
              + "): name the one server that has them too, or use UUIDs");
    }
  }

  private ServerFilter filter(String service) {
    return ServerFilter.newBuilder()
        .putAllLabels(labels)
        .addAllNames(names)
        .setService(service)
        .build();
  }

  private List<GpuServer> servers(
      ServerSource source, ServerFilter filter, Predicate<GpuServer> able) {
    return source.listServers(filter).stream()
        .map(GpuServer::of)
        .filter(server -> !exclude.contains(server.name()))
        .filter(able)
        .toList();
  }

  // No names would mean all servers.
  private static ServerFilter named(ServerFilter filter, List<GpuServer> servers) {
    if (servers.isEmpty()) {
      throw new BerthException(
          Reason.EXHAUSTED,
          "no server matches the names, exclusions, labels, service, memory and CPUs given");
    }
    return filter.toBuilder()
        .clearNames()
        .addAllNames(servers.stream().map(GpuServer::name).toList())
        .build();
  }
}
