package berth.registry.directory;

import berth.metrics.Gauge;
import berth.metrics.Metrics;
import berth.metrics.Readings;
import berth.registry.directory.Listed.ListedGpu;
import berth.v1.GpuState;
import berth.v1.ServerStatus;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.IntSupplier;

/** Who is known to a registry and who listens to it, as metrics. */
final class RegistryMetrics {
  /** A server by what can be expected of it. */
  private enum ServerState {
    SERVING,
    DRAINING,
    TROUBLED;

    static ServerState of(ServerStatus status) {
      return !status.getProblem().isEmpty() ? TROUBLED : status.getDraining() ? DRAINING : SERVING;
    }
  }

  private static final List<GpuState> GPU_STATES =
      List.of(
          GpuState.GPU_STATE_FREE,
          GpuState.GPU_STATE_RESERVED,
          GpuState.GPU_STATE_LOCKED,
          GpuState.GPU_STATE_USED,
          GpuState.GPU_STATE_UNHEALTHY);
  private static final String PREFIX = "GPU_STATE_";

  private static final Gauge SERVERS =
      Gauge.of(
          "berth_registry_servers",
          "Known servers by state: serving, draining or troubled (with a problem that they"
              + " report).",
          "state");
  private static final Gauge GPUS =
      Gauge.of("berth_registry_gpus", "GPUs of all servers, by state.", "state");
  private static final Gauge SERVER_GPUS =
      Gauge.of("berth_registry_server_gpus", "GPUs of each server, by state.", "server", "state");
  private static final Gauge WATCHERS =
      Gauge.of("berth_registry_watchers", "Clients that watch the servers.");
  private static final Gauge LINE =
      Gauge.of("berth_registry_line_length", "Clusters that have or wait for a turn to reserve.");

  private RegistryMetrics() {}

  static void report(Directory directory, IntSupplier watchers, IntSupplier line, Metrics metrics) {
    // Apart, because the roster may not be there yet.
    metrics.gauges(
        List.of(SERVERS, GPUS, SERVER_GPUS), readings -> read(directory.roster(), readings));
    metrics.gauges(
        List.of(WATCHERS, LINE),
        readings -> {
          readings.set(WATCHERS, watchers.getAsInt());
          readings.set(LINE, line.getAsInt());
        });
  }

  private static void read(Roster roster, Readings readings) {
    Map<ServerState, Integer> servers = new EnumMap<>(ServerState.class);
    Map<GpuState, Integer> gpus = new EnumMap<>(GpuState.class);
    for (Listed listed : roster.all()) {
      servers.merge(ServerState.of(listed.server().getStatus()), 1, Integer::sum);
      Map<GpuState, Integer> own = new EnumMap<>(GpuState.class);
      for (ListedGpu gpu : listed.gpus()) {
        own.merge(gpu.isHealthy() ? gpu.state() : GpuState.GPU_STATE_UNHEALTHY, 1, Integer::sum);
      }
      own.forEach((state, count) -> gpus.merge(state, count, Integer::sum));
      for (GpuState state : GPU_STATES) {
        readings.set(SERVER_GPUS, own.getOrDefault(state, 0), listed.name(), label(state));
      }
    }
    for (ServerState state : ServerState.values()) {
      readings.set(SERVERS, servers.getOrDefault(state, 0), state.name().toLowerCase(Locale.ROOT));
    }
    for (GpuState state : GPU_STATES) {
      readings.set(GPUS, gpus.getOrDefault(state, 0), label(state));
    }
  }

  private static String label(GpuState state) {
    return state.name().substring(PREFIX.length()).toLowerCase(Locale.ROOT);
  }
}
