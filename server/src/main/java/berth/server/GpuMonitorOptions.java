package berth.server;

import berth.command.DurationConverter;
import berth.host.gpu.GpuMonitor;
import berth.rpc.BerthException;
import java.time.Duration;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options of {@code berthd} that say which GPUs it has, and how they are watched. */
final class GpuMonitorOptions {
  @Option(
      names = "--nvml-library",
      paramLabel = "FILE",
      description = "NVML library to load (default: the driver's libnvidia-ml.so.1).")
  private Optional<String> nvmlLibrary = Optional.empty();

  @Option(
      names = "--simulate-gpus",
      paramLabel = "N|FILE",
      description = "Simulate N GPUs, or those described in FILE, for testing.")
  private Optional<String> simulateGpus = Optional.empty();

  @Option(
      names = "--sample-interval",
      paramLabel = "DURATION",
      defaultValue = "1s",
      converter = DurationConverter.class,
      description = "GPU sampling interval (default: ${DEFAULT-VALUE}).")
  private Duration sampleInterval;

  @Option(
      names = "--nvml-stall",
      paramLabel = "DURATION",
      defaultValue = "5s",
      converter = DurationConverter.class,
      description =
          "Driver timeout after which the state of the GPUs is unknown (default:"
              + " ${DEFAULT-VALUE}).")
  private Duration nvmlStall;

  /**
   * @throws BerthException INVALID
   */
  void check() {
    BerthdCommand.check(
        "--sample-interval",
        sampleInterval.compareTo(Duration.ofMillis(50)) >= 0,
        "must be at least 50ms");
    BerthdCommand.check(
        "--nvml-stall", nvmlStall.compareTo(Duration.ofMillis(100)) >= 0, "must be at least 100ms");
    BerthdCommand.check(
        "--simulate-gpus",
        simulateGpus.isEmpty() || nvmlLibrary.isEmpty(),
        "and --nvml-library cannot be used together");
  }

  GpuMonitor open(String serverName, GpuMonitor.Host host) {
    var timing = new GpuMonitor.Timing(sampleInterval, nvmlStall);
    return simulateGpus.isPresent()
        ? GpuMonitor.ofSimulation(simulateGpus.get(), serverName, timing, host)
        : GpuMonitor.ofNvml(nvmlLibrary, timing, host);
  }

  /** How long the driver may take for an answer. */
  Duration stall() {
    return nvmlStall;
  }
}
