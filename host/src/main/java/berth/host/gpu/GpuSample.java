package berth.host.gpu;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * All GPUs of this machine at one moment.
 *
 * @param taken when; empty before the first reading
 * @param problem why the GPUs cannot be read; empty if all is well
 */
public record GpuSample(
    Optional<Taken> taken,
    Optional<String> driverVersion,
    Optional<String> cudaVersion,
    boolean simulated,
    Optional<String> problem,
    List<Gpu> gpus,
    List<GpuLink> links) {

  /**
   * A moment on both clocks.
   *
   * @param wall for people
   * @param nanos for measuring age, on the clock of {@link GpuMonitor}
   */
  public record Taken(Instant wall, long nanos) {
    public Duration age(long nowNanos) {
      return Duration.ofNanos(nowNanos - nanos);
    }
  }

  public GpuSample {
    gpus = List.copyOf(gpus);
    links = List.copyOf(links);
  }

  public static GpuSample before(boolean simulated) {
    return new GpuSample(
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        simulated,
        Optional.of("the driver has not answered yet"),
        List.of(),
        List.of());
  }

  GpuSample with(Optional<String> newProblem, List<Gpu> newGpus) {
    return new GpuSample(taken, driverVersion, cudaVersion, simulated, newProblem, newGpus, links);
  }
}
