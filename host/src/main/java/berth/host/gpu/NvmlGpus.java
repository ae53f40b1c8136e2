package berth.host.gpu;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * The GPUs that NVML reports. Without a library or a driver there are none, and why is part of the
 * reading; both are looked for again after a while. A GPU that was seen once stays in the reading
 * while it is lost.
 */
public final class NvmlGpus implements GpuSource {
  /** The name under which every driver installs its library. */
  public static final String LIBRARY = "libnvidia-ml.so.1";

  public static final Duration RETRY = Duration.ofSeconds(10);

  private record Identity(
      int index, String uuid, Optional<String> pciBusId, Optional<String> name) {}

  private final Supplier<NvmlLibrary> loader;
  private final boolean simulated;
  private final Duration retryAfter;
  private final LongSupplier nanoClock;

  private final Map<String, Identity> known = new LinkedHashMap<>();
  private final Map<Integer, String> lastAt = new HashMap<>();
  private Optional<NvmlSession> session = Optional.empty();
  private List<String> linked = List.of();
  private List<GpuLink> links = List.of();
  private String problem = "";
  private int count;
  private boolean incomplete;
  private long reopenAtNanos;

  /**
   * @param loader loads the library, or throws {@link UnsatisfiedLinkError}
   * @param retryAfter how long to wait before NVML is initialised again, after a failure or a lost
   *     GPU
   */
  public NvmlGpus(
      Supplier<NvmlLibrary> loader,
      boolean simulated,
      Duration retryAfter,
      LongSupplier nanoClock) {
    this.loader = loader;
    this.simulated = simulated;
    this.retryAfter = retryAfter;
    this.nanoClock = nanoClock;
    this.reopenAtNanos = nanoClock.getAsLong();
  }

  public static NvmlLibrary load(String library) {
    return Native.load(library, NvmlLibrary.class);
  }

  @Override
  public boolean simulated() {
    return simulated;
  }

  @Override
  public GpuReading read() {
    // A lost GPU comes back only to those who initialise NVML again.
    if ((session.isEmpty() || incomplete) && nanoClock.getAsLong() - reopenAtNanos >= 0) {
      open();
    }
    if (session.isEmpty()) {
      return GpuReading.unreadable(problem);
    }
    try {
      return readAll(session.get());
    } catch (NvmlException e) {
      closeSession();
      problem = e.getMessage();
      return GpuReading.unreadable(problem);
    }
  }

  @Override
  public Optional<Xid> awaitXid(Duration timeout) throws InterruptedException {
    if (session.isPresent() && session.get().reportsXids()) {
      return session.get().awaitXid((int) timeout.toMillis());
    }
    Thread.sleep(timeout.toMillis());
    return Optional.empty();
  }

  @Override
  public void close() {
    closeSession();
  }

  private void open() {
    closeSession();
    reopenAtNanos = nanoClock.getAsLong() + retryAfter.toNanos();
    try {
      NvmlSession opened = new NvmlSession(loader.get());
      session = Optional.of(opened);
      count = opened.deviceCount();
    } catch (UnsatisfiedLinkError e) {
      problem = "no NVIDIA driver on this machine: " + firstLine(e.getMessage());
    } catch (NvmlException e) {
      closeSession();
      problem = e.getMessage();
    }
  }

  private void closeSession() {
    session.ifPresent(NvmlSession::close);
    session = Optional.empty();
    linked = List.of();
    links = List.of();
  }

  private GpuReading readAll(NvmlSession nvml) throws NvmlException {
    if (nvml.deviceCount() != count) {
      open();
      if (session.isEmpty()) {
        return GpuReading.unreadable(problem);
      }
      nvml = session.get();
    }
    List<Gpu> gpus = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      gpus.add(readOne(nvml, index));
    }
    // Links do not change, but only a GPU that answers tells its own.
    List<String> answering =
        gpus.stream().filter(gpu -> gpu.health().healthy()).map(Gpu::uuid).toList();
    if (!answering.equals(linked)) {
      linked = answering;
      links = links(nvml, count);
    }
    gpus.addAll(missing(gpus));
    gpus.sort(Comparator.comparingInt(Gpu::index).thenComparing(Gpu::uuid));
    incomplete = gpus.stream().anyMatch(gpu -> gpu.health().state() == GpuHealth.State.LOST);
    return new GpuReading(nvml.driverVersion(), nvml.cudaVersion(), Optional.empty(), gpus, links);
  }

  private Gpu readOne(NvmlSession nvml, int index) {
    try {
      Pointer device = nvml.device(index);
      Identity identity = identify(nvml, device, index);
      return new Gpu(
          index,
          identity.uuid,
          identity.pciBusId,
          identity.name,
          nvml.memory(device),
          nvml.utilization(device),
          nvml.temperatureCelsius(device),
          nvml.powerMilliwatts(device),
          nvml.powerLimitMilliwatts(device),
          nvml.processes(device).map(this::named),
          nvml.correctedEccErrors(device),
          nvml.uncorrectedEccErrors(device),
          nvml.migEnabled(device),
          GpuHealth.answering(nvml.recoveryAction(device)));
    } catch (NvmlException e) {
      Identity last =
          Optional.ofNullable(known.get(lastAt.get(index)))
              .filter(identity -> identity.index == index)
              .orElse(new Identity(index, "", Optional.empty(), Optional.empty()));
      return silent(last, e.health());
    }
  }

  private Identity identify(NvmlSession nvml, Pointer device, int index) throws NvmlException {
    String uuid = nvml.uuid(device);
    lastAt.put(index, uuid);
    Identity last = known.get(uuid);
    if (last != null && last.index == index) {
      return last;
    }
    Identity identity = new Identity(index, uuid, nvml.pciBusId(device), nvml.name(device));
    known.put(uuid, identity);
    return identity;
  }

  // A driver that was initialised again no longer lists what it lost.
  private List<Gpu> missing(List<Gpu> found) {
    Set<String> uuids = new HashSet<>();
    found.forEach(gpu -> uuids.add(gpu.uuid()));
    return known.values().stream()
        .filter(identity -> !uuids.contains(identity.uuid))
        .map(
            identity ->
                silent(
                    identity,
                    new GpuHealth(GpuHealth.State.LOST, "the driver no longer lists this GPU")))
        .toList();
  }

  private static Gpu silent(Identity who, GpuHealth health) {
    return Gpu.silent(who.index, who.uuid, who.pciBusId, who.name, health);
  }

  // The pids of simulated GPUs are made up, and would name whoever has them on this machine.
  private List<Gpu.Process> named(List<Gpu.Process> processes) {
    return simulated ? processes : processes.stream().map(NvmlGpus::named).toList();
  }

  private static Gpu.Process named(Gpu.Process process) {
    Optional<ProcessHandle.Info> info = ProcessHandle.of(process.pid()).map(ProcessHandle::info);
    return new Gpu.Process(
        process.pid(),
        process.memory(),
        info.flatMap(ProcessHandle.Info::user),
        info.flatMap(ProcessHandle.Info::command)
            .map(path -> path.substring(path.lastIndexOf('/') + 1)));
  }

  private static List<GpuLink> links(NvmlSession nvml, int count) {
    record End(Pointer device, String busId, Map<String, Integer> nvlinks) {}
    Map<Integer, End> ends = new HashMap<>();
    for (int index = 0; index < count; index++) {
      try {
        Pointer device = nvml.device(index);
        ends.put(index, new End(device, nvml.pciBusId(device).orElse(""), nvml.nvlinks(device)));
      } catch (NvmlException e) {
        // A lost GPU has no links; readOne reports the loss itself.
      }
    }
    List<GpuLink> links = new ArrayList<>();
    for (int a = 0; a < count; a++) {
      for (int b = a + 1; b < count; b++) {
        End one = ends.get(a);
        End other = ends.get(b);
        if (one == null || other == null) {
          continue;
        }
        int direct = one.nvlinks.getOrDefault(other.busId, 0);
        int switched =
            Math.min(
                one.nvlinks.getOrDefault(NvmlSession.SWITCH, 0),
                other.nvlinks.getOrDefault(NvmlSession.SWITCH, 0));
        var pcie = nvml.pcieDistance(one.device, other.device);
        if (direct + switched > 0 || pcie.isPresent()) {
          links.add(new GpuLink(a, b, direct + switched, pcie));
        }
      }
    }
    return links;
  }

  private static String firstLine(String message) {
    String line = message.lines().findFirst().orElse(message);
    return line.endsWith(":") ? line.substring(0, line.length() - 1) : line;
  }
}
