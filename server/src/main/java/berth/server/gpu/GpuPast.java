package berth.server.gpu;

import berth.rpc.Messages;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GpuHistory;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Remembers the last minutes of all GPUs, a value each every two seconds, for those who come later.
 * Any thread may call.
 */
final class GpuPast implements GpuListener {
  private static final Duration STEP = Duration.ofSeconds(2);
  private static final int LENGTH = 150;
  private static final int UNKNOWN = -1;

  private record Point(Instant at, Map<String, Gpu> gpus) {}

  private final Deque<Point> points = new ArrayDeque<>();
  private long nextNanos;

  @Override
  public synchronized void sampled(GpuSample sample) {
    sample
        .taken()
        .filter(taken -> points.isEmpty() || taken.nanos() - nextNanos >= 0)
        .ifPresent(taken -> add(sample, taken));
  }

  private void add(GpuSample sample, GpuSample.Taken taken) {
    Map<String, Gpu> gpus = new LinkedHashMap<>();
    sample.gpus().forEach(gpu -> gpus.put(gpu.uuid(), gpu));
    points.addLast(new Point(taken.wall(), gpus));
    if (points.size() > LENGTH) {
      points.removeFirst();
    }
    // A sample is a little late or early, and none may be left out for that.
    nextNanos = taken.nanos() + STEP.multipliedBy(3).dividedBy(4).toNanos();
  }

  @Override
  public void healthChanged(GpuHealthChange change) {}

  @Override
  public void stopped() {}

  synchronized GetGpuHistoryResponse message() {
    GetGpuHistoryResponse.Builder message =
        GetGpuHistoryResponse.newBuilder().setStep(Messages.duration(STEP));
    if (points.isEmpty()) {
      return message.build();
    }
    Point last = points.getLast();
    message.setEnd(Messages.timestamp(last.at));
    last.gpus.values().forEach(gpu -> message.addGpus(history(gpu.uuid()).setIndex(gpu.index())));
    return message.build();
  }

  private GpuHistory.Builder history(String uuid) {
    GpuHistory.Builder history = GpuHistory.newBuilder().setUuid(uuid);
    for (Point point : points) {
      Optional<Gpu> gpu = Optional.ofNullable(point.gpus.get(uuid));
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
