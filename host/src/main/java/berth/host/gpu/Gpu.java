package berth.host.gpu;

import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * One GPU at one moment. What the driver does not support is empty.
 *
 * @param index NVML's index, from 0
 * @param uuid empty only for a GPU that was lost before it ever answered and has no known outage
 */
public record Gpu(
    int index,
    String uuid,
    Optional<String> pciBusId,
    Optional<String> name,
    Optional<Memory> memory,
    Optional<Utilization> utilization,
    OptionalInt temperatureCelsius,
    OptionalInt powerMilliwatts,
    OptionalInt powerLimitMilliwatts,
    Optional<List<Process>> processes,
    OptionalLong correctedEccErrors,
    OptionalLong uncorrectedEccErrors,
    Optional<Boolean> migEnabled,
    GpuHealth health) {

  public Gpu {
    processes = processes.map(List::copyOf);
  }

  /** Memory in bytes. */
  public record Memory(long total, long used, long free) {}

  /** Percent of the driver's last sampling period. */
  public record Utilization(int gpu, int memory) {}

  /** A process with a compute context on the GPU. */
  public record Process(
      int pid, OptionalLong memory, Optional<String> user, Optional<String> command) {}

  /**
   * A GPU of which nothing is known but its place, and perhaps who it was when it last answered.
   */
  public static Gpu silent(
      int index, String uuid, Optional<String> pciBusId, Optional<String> name, GpuHealth health) {
    return new Gpu(
        index,
        uuid,
        pciBusId,
        name,
        Optional.empty(),
        Optional.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        Optional.empty(),
        OptionalLong.empty(),
        OptionalLong.empty(),
        Optional.empty(),
        health);
  }

  Gpu withHealth(GpuHealth judged) {
    return new Gpu(
        index,
        uuid,
        pciBusId,
        name,
        memory,
        utilization,
        temperatureCelsius,
        powerMilliwatts,
        powerLimitMilliwatts,
        processes,
        correctedEccErrors,
        uncorrectedEccErrors,
        migEnabled,
        judged);
  }
}
