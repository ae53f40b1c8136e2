package berth.server;

import berth.host.lock.KernelFiles;
import berth.rpc.BerthException;
import berth.server.reservation.Reservations;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options of {@code berthd} for reservations, and where its state is. */
final class ReservationOptions {
  @Option(
      names = "--lock-dir",
      paramLabel = "DIR",
      defaultValue = "/tmp",
      description =
          "Folder of the lock files tmp_lock_sysgpus, tmp_lock_gpu0, ..., shared with other"
              + " servers, 'berth lock' and services that use fasteners (default:"
              + " ${DEFAULT-VALUE}).")
  private Path lockDir;

  @Option(
      names = "--state-dir",
      paramLabel = "DIR",
      description =
          "State folder for reservations and runs (default: /var/lib/berth/NAME as root, else"
              + " ~/.local/state/berth/NAME).")
  private Optional<Path> stateDir = Optional.empty();

  @Option(
      names = "--port-range",
      paramLabel = "FIRST-LAST",
      defaultValue = "20000-20999",
      description = "TCP port range for reservations (default: ${DEFAULT-VALUE}).")
  private String portRange;

  @Option(
      names = "--ignore-strangers",
      description =
          "Grant GPUs even if processes without a reservation use them (default: skip them).")
  private boolean ignoreStrangers;

  @Option(
      names = "--max-waiting",
      paramLabel = "N",
      defaultValue = "1000",
      description =
          "Maximum number of waiting GPU requests, excluding runs (default: ${DEFAULT-VALUE}).")
  private int maxWaiting;

  @Option(
      names = "--max-waiting-per-owner",
      paramLabel = "N",
      defaultValue = "100",
      description =
          "Maximum number of waiting GPU requests per owner, excluding runs (default:"
              + " ${DEFAULT-VALUE}).")
  private int maxWaitingPerOwner;

  /**
   * @throws BerthException INVALID
   */
  void check() {
    BerthdCommand.check("--max-waiting", maxWaiting >= 0, "must not be negative");
    BerthdCommand.check("--max-waiting-per-owner", maxWaitingPerOwner >= 0, "must not be negative");
  }

  Path lockDir() {
    return lockDir;
  }

  boolean ignoreStrangers() {
    return ignoreStrangers;
  }

  Path stateDir(String serverName) {
    return stateDir.orElseGet(() -> defaultStateDir(serverName));
  }

  private static Path defaultStateDir(String serverName) {
    String home = System.getProperty("user.home");
    Path base = KernelFiles.isRoot() ? Path.of("/var/lib") : Path.of(home, ".local", "state");
    return base.resolve("berth").resolve(serverName);
  }

  Reservations.Settings settings(String serverName) {
    return new Reservations.Settings(
        serverName,
        lockDir,
        stateDir(serverName),
        portRange,
        ignoreStrangers,
        maxWaiting,
        maxWaitingPerOwner);
  }
}
