package berth.client.call;

import berth.client.spec.GpuLoad;
import berth.client.spec.GpuServer;
import berth.client.spec.ServerGpu;
import berth.v1.Gpu;
import berth.v1.GpuHealthState;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;

/** Servers and their GPUs out of what registries and servers say of them. */
public final class GpuServers {
  private GpuServers() {}

  public static GpuServer of(Server server) {
    ServerInfo info = server.getInfo();
    ServerStatus status = server.getStatus();
    List<ServerGpu> gpus = new ArrayList<>();
    for (GpuInfo gpu : info.getGpusList()) {
      gpus.add(gpu(info.getName(), gpu, status));
    }
    Set<String> services = new TreeSet<>();
    info.getServicesList()
        .forEach(
            service -> {
              services.add(service.getName().toLowerCase(Locale.ROOT));
              service.getAliasesList().forEach(a -> services.add(a.toLowerCase(Locale.ROOT)));
            });
    return new GpuServer(
        info.getName(),
        ManyServers.address(server),
        gpus,
        info.getMemoryBytes(),
        status.getFreeMemoryBytes(),
        info.getCpus(),
        info.getLabelsMap(),
        services,
        info.getRuntime(),
        info.getSimulated(),
        status.getCanRun(),
        status.getDraining(),
        status.getQueueLength(),
        status.getProblem());
  }

  // One of which nothing was said has gone since.
  private static ServerGpu gpu(String server, GpuInfo info, ServerStatus status) {
    GpuStatus now =
        status.getGpusList().stream()
            .filter(each -> each.getIndex() == info.getIndex())
            .findFirst()
            .orElse(
                GpuStatus.newBuilder()
                    .setState(GpuState.GPU_STATE_UNHEALTHY)
                    .setReason("its server does not report it")
                    .build());
    return new ServerGpu(
        server,
        info.getIndex(),
        info.getUuid(),
        info.getModel(),
        info.getMemoryBytes(),
        now.getFreeMemoryBytes(),
        state(now.getState()),
        now.getReason(),
        GpuLoad.UNKNOWN);
  }

  private static ServerGpu.State state(GpuState state) {
    return switch (state) {
      case GPU_STATE_FREE -> ServerGpu.State.FREE;
      case GPU_STATE_RESERVED -> ServerGpu.State.RESERVED;
      case GPU_STATE_LOCKED -> ServerGpu.State.LOCKED;
      case GPU_STATE_USED -> ServerGpu.State.USED;
      case GPU_STATE_UNHEALTHY, GPU_STATE_UNSPECIFIED, UNRECOGNIZED -> ServerGpu.State.UNHEALTHY;
    };
  }

  /** The same GPU with what its server says of it now. */
  public static ServerGpu now(ServerGpu known, Gpu gpu) {
    boolean healthy = gpu.getHealth().getState() == GpuHealthState.GPU_HEALTH_STATE_HEALTHY;
    return new ServerGpu(
        known.server(),
        known.index(),
        known.uuid(),
        known.model(),
        known.memoryBytes(),
        gpu.hasMemory() ? gpu.getMemory().getFreeBytes() : known.freeMemoryBytes(),
        healthy ? known.state() : ServerGpu.State.UNHEALTHY,
        healthy ? known.reason() : gpu.getHealth().getReason(),
        load(gpu));
  }

  private static GpuLoad load(Gpu gpu) {
    return new GpuLoad(
        optional(gpu.hasGpuUtilizationPercent(), gpu.getGpuUtilizationPercent()),
        gpu.hasMemory() ? OptionalLong.of(gpu.getMemory().getUsedBytes()) : OptionalLong.empty(),
        optional(gpu.hasTemperatureCelsius(), gpu.getTemperatureCelsius()),
        optional(gpu.hasPowerMilliwatts(), gpu.getPowerMilliwatts()),
        optional(gpu.hasPowerLimitMilliwatts(), gpu.getPowerLimitMilliwatts()));
  }

  private static OptionalInt optional(boolean present, int value) {
    return present ? OptionalInt.of(value) : OptionalInt.empty();
  }
}
