package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Candidate;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.Gpu;
import berth.v1.GpuHealthState;
import berth.v1.GpuInfo;
import berth.v1.GpuReport;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ListReservationsResponse;
import berth.v1.ListServicesResponse;
import berth.v1.LockHolder;
import berth.v1.ReservedGpu;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.UnreservedUse;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** One server that is known by its address, without any registry. Any thread may call. */
public final class GivenServer implements ServerSource {
  /** Where servers listen unless they are told otherwise. */
  public static final int PORT = 18812;

  private static final Duration ANSWER = Duration.ofSeconds(5);

  private final Address address;
  private final GpuClient gpus;
  private final ReservationClient reservations;
  private final RunClient runs;

  /** It connects with its first call. */
  public GivenServer(Address address) {
    this.address = address;
    this.gpus = GpuClient.of(address);
    this.reservations = ReservationClient.of(address);
    this.runs = RunClient.of(address);
  }

  /** The server itself, unless the filter names others. */
  @Override
  public List<Server> listServers(ServerFilter filter) {
    if (!filter.getLabelsMap().isEmpty()) {
      throw new BerthException(Reason.INVALID, "labels require a registry");
    }
    Server server = describe();
    boolean meant =
        filter.getNamesCount() == 0
            || filter.getNamesList().contains(server.getInfo().getName())
            || filter.getNamesList().contains(address.toString());
    return meant ? List.of(server) : List.of();
  }

  /** The server itself, which is then asked whether it can. */
  @Override
  public FindGpusResponse findGpus(FindGpusRequest request) {
    List<Server> servers = listServers(request.getFilter());
    if (servers.isEmpty()) {
      return FindGpusResponse.newBuilder()
          .setProblem(
              "the server at "
                  + address
                  + " is not one of those named: "
                  + String.join(", ", request.getFilter().getNamesList()))
          .build();
    }
    return FindGpusResponse.newBuilder()
        .addCandidates(Candidate.newBuilder().setServer(servers.get(0)).setNow(true))
        .build();
  }

  private Server describe() {
    GpuReport report = gpus.listGpus(ANSWER).getReport();
    ListReservationsResponse reserved = reservations.listReservations(ANSWER);
    ListServicesResponse services = runs.listServices(ANSWER);
    ServerInfo.Builder info =
        ServerInfo.newBuilder()
            .setName(reserved.getServer())
            .setAddress(address.toString())
            .addAllServices(services.getServicesList())
            .setSimulated(report.getSimulated())
            .setRuntime(services.getRuntime().getName());
    ServerStatus.Builder status =
        ServerStatus.newBuilder()
            .setQueueLength(reserved.getWaitingCount())
            .setDraining(reserved.getDraining())
            .setProblem(report.getProblem())
            .setCanRun(services.getRuntime().getUsable());
    Map<Integer, GpuState> taken = taken(reserved);
    for (Gpu gpu : report.getGpusList()) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(gpu.getIndex())
              .setUuid(gpu.getUuid())
              .setModel(gpu.getName())
              .setMemoryBytes(gpu.getMemory().getTotalBytes()));
      status.addGpus(state(gpu, taken));
    }
    return Server.newBuilder().setInfo(info).setStatus(status).build();
  }

  private static GpuStatus state(Gpu gpu, Map<Integer, GpuState> taken) {
    boolean healthy = gpu.getHealth().getState() == GpuHealthState.GPU_HEALTH_STATE_HEALTHY;
    return GpuStatus.newBuilder()
        .setIndex(gpu.getIndex())
        .setState(
            healthy
                ? taken.getOrDefault(gpu.getIndex(), GpuState.GPU_STATE_FREE)
                : GpuState.GPU_STATE_UNHEALTHY)
        .setFreeMemoryBytes(gpu.getMemory().getFreeBytes())
        .setReason(healthy ? "" : gpu.getHealth().getReason())
        .build();
  }

  private static Map<Integer, GpuState> taken(ListReservationsResponse reserved) {
    Map<Integer, GpuState> taken = new HashMap<>();
    for (UnreservedUse use : reserved.getUnreservedUseList()) {
      taken.put(use.getIndex(), GpuState.GPU_STATE_USED);
    }
    for (LockHolder holder : reserved.getLockedByOthersList()) {
      taken.put(holder.getIndex(), GpuState.GPU_STATE_LOCKED);
    }
    reserved
        .getReservationsList()
        .forEach(
            reservation -> {
              for (ReservedGpu gpu : reservation.getGpusList()) {
                taken.put(gpu.getIndex(), GpuState.GPU_STATE_RESERVED);
              }
            });
    return taken;
  }

  @Override
  public Optional<RegistryClient> registry() {
    return Optional.empty();
  }

  @Override
  public void close() {
    gpus.close();
    reservations.close();
    runs.close();
  }

  /** Where it is, for messages. */
  @Override
  public String toString() {
    return address.toString();
  }
}
