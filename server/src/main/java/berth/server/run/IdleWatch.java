package berth.server.run;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealthChange;
import berth.host.gpu.GpuListener;
import berth.host.gpu.GpuSample;
import berth.host.lock.LockedGpu;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.LongSupplier;

/**
 * Notices that a run has not used its GPUs for as long as it may. Counts from the first sample that
 * it is told: what was before does not matter.
 */
final class IdleWatch implements GpuListener {
  private final Limits.Idle limit;
  private final List<LockedGpu> gpus;
  private final LongSupplier nanoClock;
  private final Runnable whenIdle;
  private OptionalLong idleSince = OptionalLong.empty();
  private boolean told;

  /**
   * @param gpus none: the run is never idle
   * @param whenIdle is run once, by the thread that samples the GPUs; must not block
   */
  IdleWatch(Limits.Idle limit, List<LockedGpu> gpus, LongSupplier nanoClock, Runnable whenIdle) {
    this.limit = limit;
    this.gpus = gpus;
    this.nanoClock = nanoClock;
    this.whenIdle = whenIdle;
  }

  @Override
  public void sampled(GpuSample sample) {
    if (!showsIdleness(sample)) {
      idleSince = OptionalLong.empty();
      return;
    }
    long now = nanoClock.getAsLong();
    if (idleSince.isEmpty()) {
      idleSince = OptionalLong.of(now);
    }
    if (!told && now - idleSince.getAsLong() >= limit.time().toNanos()) {
      told = true;
      whenIdle.run();
    }
  }

  // Who cannot be seen to be idle is not: a driver that hangs must not end anybody's work.
  private boolean showsIdleness(GpuSample sample) {
    return sample.problem().isEmpty()
        && !gpus.isEmpty()
        && gpus.stream()
            .allMatch(held -> sample.gpus().stream().anyMatch(gpu -> isIdle(gpu, held)));
  }

  private boolean isIdle(Gpu gpu, LockedGpu held) {
    return gpu.uuid().equals(held.uuid())
        && gpu.utilization().map(used -> used.gpu() < limit.belowPercent()).orElse(false);
  }

  @Override
  public void healthChanged(GpuHealthChange change) {}

  @Override
  public void stopped() {}
}
