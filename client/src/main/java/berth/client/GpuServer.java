package berth.client;

import berth.rpc.Address;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * A server: what it said of itself last, to the registry a heartbeat ago at most.
 *
 * @param address where to call it
 * @param gpus by ascending index
 * @param memoryBytes memory of the machine; 0 if nobody knows
 * @param freeMemoryBytes about how much of that programs could get; 0 if nobody knows
 * @param cpus processors of the machine; 0 if nobody knows
 * @param labels what its administrator says of it
 * @param services the names of its services, with their aliases, in lower case
 * @param runtime how it runs code: {@code docker} or {@code process}
 * @param simulated whether its GPUs are
 * @param canRun whether it can run code at present
 * @param draining whether it grants nothing at present
 * @param queueLength how many requests wait there
 * @param problem why it cannot serve as it should; empty if all is well
 */
public record GpuServer(
    String name,
    Address address,
    List<ServerGpu> gpus,
    long memoryBytes,
    long freeMemoryBytes,
    int cpus,
    Map<String, String> labels,
    Set<String> services,
    String runtime,
    boolean simulated,
    boolean canRun,
    boolean draining,
    int queueLength,
    String problem) {

  public GpuServer {
    gpus = List.copyOf(gpus);
    labels = Map.copyOf(labels);
    services = Set.copyOf(services);
  }

  /** One of which nothing is known but where it is. */
  public static GpuServer unseen(String name, Address address) {
    return new GpuServer(
        name,
        address,
        List.of(),
        0,
        0,
        0,
        Map.of(),
        Set.of(),
        "",
        false,
        false,
        false,
        0,
        "no heartbeat");
  }

  /** How many of its GPUs nobody holds or uses. */
  public int freeGpus() {
    return (int) gpus.stream().filter(ServerGpu::free).count();
  }

  static GpuServer of(Server server) {
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
}
