package berth.server.presence;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuSample;
import berth.rpc.Address;
import berth.rpc.PlainText;
import berth.rpc.Vitals;
import berth.server.reservation.Overview;
import berth.server.reservation.Reservations;
import berth.server.run.Runs;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * What this server says of itself. A thread of its own looks at the parts of the server, so that
 * nobody who asks waits for them.
 */
final class SelfReport implements AutoCloseable {
  private static final int MOST_RUN_IDS = 1000;
  // Free memory changes all the time; only what may matter to somebody is news.
  private static final long MEMORY_STEP = 256L << 20;
  private static final Duration LOOK = Duration.ofMillis(200);
  private static final Duration STALE = Duration.ofSeconds(10);

  /** What was seen, and when. */
  private record Look(ServerInfo info, ServerStatus status, long nanos) {}

  private final ServerInfo fixed;
  private final MachineMemory memory;
  private final GpuMonitor gpus;
  private final Reservations reservations;
  private final Runs runs;
  private volatile Look newest;
  private volatile boolean closed;

  /**
   * @param fixed what never changes; GPUs, memory and address are added
   */
  SelfReport(
      ServerInfo fixed,
      MachineMemory memory,
      GpuMonitor gpus,
      Reservations reservations,
      Runs runs,
      Vitals vitals) {
    this.fixed = fixed.toBuilder().setMemoryBytes(memory.total()).build();
    this.memory = memory;
    this.gpus = gpus;
    this.reservations = reservations;
    this.runs = runs;
    look();
    vitals.start("presence-look", this::lookSoon);
  }

  String name() {
    return fixed.getName();
  }

  ServerInfo info(Address address) {
    return newest.info.toBuilder().setAddress(address.toString()).build();
  }

  ServerStatus status() {
    Look look = newest;
    boolean stale = System.nanoTime() - look.nanos > STALE.toNanos();
    return stale ? troubled(look.status, "a lock or a disk hangs") : look.status;
  }

  @Override
  public void close() {
    closed = true;
  }

  private boolean lookSoon() throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(LOOK.toNanos());
    if (!closed) {
      look();
    }
    return !closed;
  }

  private void look() {
    GpuSample sample = gpus.newest();
    ServerStatus status;
    try {
      status = status(sample);
    } catch (RuntimeException e) {
      ServerStatus last = newest == null ? ServerStatus.getDefaultInstance() : newest.status;
      status = troubled(last, e.getMessage() == null ? e.toString() : e.getMessage());
    }
    newest = new Look(info(sample), status, System.nanoTime());
  }

  // It is still there, and said so: better than to be gone.
  private static ServerStatus troubled(ServerStatus last, String why) {
    return last.toBuilder()
        .setProblem("cannot read its GPUs and runs: " + PlainText.clean(why))
        .build();
  }

  private ServerInfo info(GpuSample sample) {
    ServerInfo.Builder info = fixed.toBuilder().setSimulated(sample.simulated());
    for (Gpu gpu : sample.gpus()) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(gpu.index())
              .setUuid(gpu.uuid())
              .setModel(gpu.name().orElse(""))
              .setMemoryBytes(gpu.memory().map(Gpu.Memory::total).orElse(0L)));
    }
    return info.build();
  }

  private ServerStatus status(GpuSample sample) {
    Overview overview = reservations.overview();
    Runs.Load load = runs.load();
    ServerStatus.Builder status =
        ServerStatus.newBuilder()
            .setQueueLength(overview.waiting().size())
            .setDraining(overview.draining())
            .setProblem(load.problem().or(sample::problem).orElse(""))
            .setCanRun(load.problem().isEmpty())
            .setFreeMemoryBytes(memory.free())
            .setRunCount(load.unfinished().size())
            .addAllRunIds(first(load.unfinished()));
    Map<Integer, Overview.Use> uses = overview.uses();
    for (Gpu gpu : sample.gpus()) {
      status.addGpus(status(gpu, uses.getOrDefault(gpu.index(), Overview.Use.FREE)));
    }
    return status.build();
  }

  private static GpuState state(Overview.Use use) {
    return switch (use) {
      case FREE -> GpuState.GPU_STATE_FREE;
      case RESERVED -> GpuState.GPU_STATE_RESERVED;
      case LOCKED -> GpuState.GPU_STATE_LOCKED;
      case USED -> GpuState.GPU_STATE_USED;
    };
  }

  private static GpuStatus status(Gpu gpu, Overview.Use use) {
    GpuHealth health = gpu.health();
    long free = gpu.memory().map(Gpu.Memory::free).orElse(0L);
    return GpuStatus.newBuilder()
        .setIndex(gpu.index())
        .setState(health.healthy() ? state(use) : GpuState.GPU_STATE_UNHEALTHY)
        .setReason(health.reason())
        .setFreeMemoryBytes(free / MEMORY_STEP * MEMORY_STEP)
        .build();
  }

  private static List<String> first(List<String> ids) {
    return ids.subList(0, Math.min(ids.size(), MOST_RUN_IDS));
  }
}
