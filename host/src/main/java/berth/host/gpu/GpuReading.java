package berth.host.gpu;

import java.util.List;
import java.util.Optional;

/**
 * What a {@link GpuSource} found when it looked.
 *
 * @param problem why the GPUs cannot be read; there are no GPUs then
 * @param gpus by ascending index
 */
public record GpuReading(
    Optional<String> driverVersion,
    Optional<String> cudaVersion,
    Optional<String> problem,
    List<Gpu> gpus,
    List<GpuLink> links) {

  public GpuReading {
    gpus = List.copyOf(gpus);
    links = List.copyOf(links);
  }

  static GpuReading unreadable(String problem) {
    return new GpuReading(
        Optional.empty(), Optional.empty(), Optional.of(problem), List.of(), List.of());
  }

  /** NVML's form of a CUDA version, 12040, as people write it: 12.4. */
  static String cudaVersion(int number) {
    return number / 1000 + "." + number % 1000 / 10;
  }
}
