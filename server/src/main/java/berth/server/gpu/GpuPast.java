package berth.server.gpu;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealthChange;
import berth.host.gpu.GpuListener;
import berth.host.gpu.GpuSample;
import berth.rpc.Messages;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GpuHistory;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Remembers the last five minutes of all GPUs, a value each for every two seconds, for those who
 * come later. Any thread may call.
 */
final class GpuPast implements GpuListener {
  private static final Duration STEP = Duration.ofSeconds(2);
  private static final int LENGTH = 150;
  // A value holds until the next one comes, but for no longer than this: somebody may sample
  // seldom,
  // and a driver that hangs leaves a gap.
  private static final int HOLDS = 5;
  private static final int UNKNOWN = -1;

  private record Point(GpuSample.Taken taken, Map<String, Gpu> gpus) {
    Optional<Gpu> gpu(String uuid) {
      return Optional.ofNullable(gpus.get(uuid));
    }
  }

  // By the number of their step, on the clock that never jumps.
  private final TreeMap<Long, Point> points = new TreeMap<>();

  @Override
  public synchronized void sampled(GpuSample sample) {
    sample.taken().ifPresent(taken -> add(sample, taken));
  }

  private void add(GpuSample sample, GpuSample.Taken taken) {
    Map<String, Gpu> gpus = new LinkedHashMap<>();
    sample.gpus().forEach(gpu -> gpus.put(gpu.uuid(), gpu));
    long step = Math.floorDiv(taken.nanos(), STEP.toNanos());
    points.put(step, new Point(taken, gpus));
    points.headMap(step - LENGTH - HOLDS).clear();
  }

  @Override
  public void healthChanged(GpuHealthChange change) {}

  @Override
  public void stopped() {}

  /** All that is remembered. */
  synchronized GetGpuHistoryResponse message(long nowNanos) {
    GetGpuHistoryResponse.Builder message =
        GetGpuHistoryResponse.newBuilder().setStep(Messages.duration(STEP));
    if (points.isEmpty()) {
      return message.build();
    }
    Point last = points.lastEntry().getValue();
    message
        .setEnd(Messages.timestamp(last.taken.wall()))
        .setAge(Messages.duration(last.taken.age(nowNanos)));
    last.gpus.values().forEach(gpu -> message.addGpus(history(gpu.uuid()).setIndex(gpu.index())));
    return message.build();
  }

  private GpuHistory.Builder history(String uuid) {
    GpuHistory.Builder history = GpuHistory.newBuilder().setUuid(uuid);
    long end = points.lastKey();
    for (long step = Math.max(points.firstKey(), end - LENGTH + 1); step <= end; step++) {
      long oldest = step - HOLDS;
      Optional<Gpu> gpu =
          Optional.ofNullable(points.floorEntry(step))
              .filter(point -> point.getKey() > oldest)
              .flatMap(point -> point.getValue().gpu(uuid));
      history
          .addUtilizationPercent(
              gpu.flatMap(Gpu::utilization).map(Gpu.Utilization::gpu).orElse(UNKNOWN))
          .addMemoryMebibytes(
              gpu.flatMap(Gpu::memory).map(memory -> (int) (memory.used() >> 20)).orElse(UNKNOWN))
          .addTemperatureCelsius(
              gpu.map(known -> known.temperatureCelsius().orElse(UNKNOWN)).orElse(UNKNOWN))
          .addPowerWatts(gpu.map(GpuPast::watts).orElse(UNKNOWN));
    }
    return history;
  }

  private static int watts(Gpu gpu) {
    return gpu.powerMilliwatts().isPresent()
        ? Math.round(gpu.powerMilliwatts().getAsInt() / 1000f)
        : UNKNOWN;
  }
}
