package berth.server.run;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuSample;
import berth.host.lock.LockedGpu;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Finds out whether processes are left on the GPUs of a run that is over.
 *
 * @param ignoreStrangers whether processes without a reservation are nobody's concern; then those
 *     of the run cannot be told from them
 */
record LeftOnGpus(GpuMonitor monitor, boolean ignoreStrangers) {
  private static final Duration FRESH_SAMPLE = Duration.ofSeconds(2);

  /** What a sample that was begun at {@code nanos} or later shows, for people; empty if nothing. */
  String lookAt(List<LockedGpu> gpus, long nanos) throws InterruptedException {
    Optional<GpuSample> sample = monitor.awaitSampleSince(nanos, FRESH_SAMPLE);
    return sample.map(fresh -> stillOn(gpus, fresh)).orElse("the driver does not answer");
  }

  private String stillOn(List<LockedGpu> gpus, GpuSample sample) {
    if (ignoreStrangers || sample.problem().isPresent()) {
      return "";
    }
    List<String> found = new ArrayList<>();
    for (Gpu gpu : sample.gpus()) {
      if (gpus.stream().anyMatch(held -> held.uuid().equals(gpu.uuid()))
          && gpu.processes().map(processes -> !processes.isEmpty()).orElse(false)) {
        found.add(
            "process "
                + gpu.processes().get().stream()
                    .map(process -> "" + process.pid())
                    .collect(Collectors.joining(", "))
                + " is still on GPU "
                + gpu.index());
      }
    }
    return String.join("; ", found);
  }
}
