package berth.client.call;

import berth.client.spec.GpuChoice;
import berth.client.spec.GpuServer;
import berth.client.spec.ReservationSpec;
import berth.client.spec.RunLimits;
import berth.client.spec.RunSpec;
import berth.client.spec.ServerChoice;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.function.Predicate;

/** A {@link ServerChoice} in words that registries understand. */
public final class ServerFilters {
  private ServerFilters() {}

  /**
   * Where a run may go, in words that registries understand.
   *
   * @throws BerthException INVALID if its GPUs are not clear, EXHAUSTED if no server is left, and
   *     as {@link ServerSource#listServers}
   */
  public static ServerFilter of(ServerSource source, RunSpec spec) {
    ServerChoice choice = spec.resources().servers();
    checkClear(choice, source, spec.resources().gpus());
    ServerFilter filter = filter(choice, spec.service());
    RunLimits limits = spec.limits();
    if (choice.exclude().isEmpty() && limits.memoryBytes() == 0 && limits.cpus() == 0) {
      return filter;
    }
    // Of a server without a registry the size is not known: it says itself what is too much.
    List<GpuServer> able =
        servers(
            choice,
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
  public static ServerFilter of(ServerSource source, ReservationSpec spec) {
    ServerChoice choice = spec.resources().servers();
    checkClear(choice, source, spec.resources().gpus());
    ServerFilter filter = filter(choice, spec.service());
    return choice.exclude().isEmpty()
        ? filter
        : named(filter, servers(choice, source, filter, server -> true));
  }

  // Every server has a GPU 0.
  private static void checkClear(ServerChoice choice, ServerSource source, GpuChoice gpus) {
    if (gpus.hasIndices() && source.registry().isPresent() && choice.names().size() != 1) {
      throw new BerthException(
          Reason.INVALID,
          "GPUs are asked for by index ("
              + String.join(", ", gpus.exactly())
              + "): name the one server that has them too, or use UUIDs");
    }
  }

  private static ServerFilter filter(ServerChoice choice, String service) {
    return ServerFilter.newBuilder()
        .putAllLabels(choice.labels())
        .addAllNames(choice.names())
        .setService(service)
        .build();
  }

  private static List<GpuServer> servers(
      ServerChoice choice, ServerSource source, ServerFilter filter, Predicate<GpuServer> able) {
    return source.listServers(filter).stream()
        .map(GpuServers::of)
        .filter(server -> !choice.exclude().contains(server.name()))
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
