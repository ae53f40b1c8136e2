package berth.server.run;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Vitals;
import berth.server.reservation.Reservations;
import java.nio.file.Path;
import java.time.Duration;

/** The parts of a server that runs need, in the folders {@code locks} and {@code state}. */
final class OneServer {
  private OneServer() {}

  static Path state(Path folder) {
    return folder.resolve("state");
  }

  static Reservations reservations(
      Path folder, GpuMonitor gpus, DurableFiles durable, Metrics metrics) {
    return Reservations.open(
        new Reservations.Settings(
            "gpu01", folder.resolve("locks"), state(folder), "20000-20999", false),
        gpus,
        durable,
        new Vitals(),
        metrics);
  }

  static Runs.Settings settings(Path folder, Runs.Storage storage) {
    return new Runs.Settings(
        "gpu01",
        state(folder),
        Services.none(),
        MountRules.none(),
        new UidRange(2_100_000_000, 2_100_009_999),
        Duration.ofMillis(300),
        1 << 20,
        Duration.ofDays(1),
        1 << 20,
        storage,
        false);
  }
}
