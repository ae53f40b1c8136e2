package berth.server.run.docker;

import berth.server.reservation.Reservation.Owner;
import berth.server.run.Launch;
import berth.server.run.Limits;
import berth.server.run.RequestedRun;
import berth.server.run.RunEngine;
import berth.server.run.Runs;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/** What tests of the engine start: {@code run-1}. */
final class Launches {
  static final Limits UNLIMITED =
      new Limits(
          Optional.empty(),
          Optional.empty(),
          Duration.ZERO,
          OptionalLong.empty(),
          OptionalDouble.empty(),
          OptionalLong.empty(),
          OptionalLong.empty(),
          Optional.empty());

  private Launches() {}

  /** A program that only ends, in a container of {@code busybox:1}. */
  static Launch of(Path folder) {
    return new Launch(
        "run-1",
        Runs.folder(folder.resolve("state"), "run-1"),
        Optional.of("busybox:1"),
        Optional.empty(),
        Optional.empty(),
        List.of("true"),
        Map.of(),
        "/work",
        Optional.empty(),
        RequestedRun.Network.OWN,
        List.of(),
        UNLIMITED,
        Map.of(),
        List.of(),
        new Owner("ann", "laptop"),
        "");
  }

  static final class NoProgress implements RunEngine.Progress {
    @Override
    public void pulling(RunEngine.Pull pull) {}

    @Override
    public boolean wanted() {
      return true;
    }
  }
}
