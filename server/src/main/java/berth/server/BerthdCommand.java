package berth.server;

import berth.command.DaemonOptions;
import berth.command.DurationConverter;
import berth.command.ExitCode;
import berth.command.Termination;
import berth.command.Version;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.server.gpu.GpuGrpcService;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.ReservationGrpcService;
import berth.server.reservation.Reservations;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of {@code berthd}, and the wiring of its parts. */
@Command(
    name = "berthd",
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    sortOptions = false,
    description =
        "Reports and reserves the GPUs of this machine for everyone who may ask. Runs until"
            + " SIGTERM.",
    footer = {
      "",
      "Every option but --config, --stacktrace, --help and --version may also stand in the file, as"
          + " 'listen: 127.0.0.1:18812'.",
      "Durations: 500ms, 30s, 10m, 2h.",
    })
final class BerthdCommand implements Callable<Integer> {
  private static final Logger log = LoggerFactory.getLogger("berthd");
  private static final int PORT = 18812;

  @Mixin private final DaemonOptions daemon = new DaemonOptions(PORT);

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Name of this server as people see it (default: the host name).")
  private Optional<String> name = Optional.empty();

  @Option(
      names = "--nvml-library",
      paramLabel = "FILE",
      description = "NVML library to load (default: libnvidia-ml.so.1 of the driver).")
  private Optional<String> nvmlLibrary = Optional.empty();

  @Option(
      names = "--simulate-gpus",
      paramLabel = "N|FILE",
      description =
          "Simulate N GPUs, or those that FILE describes, in place of the real ones. For trying and"
              + " testing.")
  private Optional<String> simulateGpus = Optional.empty();

  @Option(
      names = "--sample-interval",
      paramLabel = "DURATION",
      defaultValue = "1s",
      converter = DurationConverter.class,
      description = "Time between two samples of the GPUs (default: ${DEFAULT-VALUE}).")
  private Duration sampleInterval;

  @Option(
      names = "--xid-recovery",
      paramLabel = "DURATION",
      defaultValue = "60s",
      converter = DurationConverter.class,
      description =
          "How long a GPU must answer without a further critical error (XID) until it counts as"
              + " healthy again (default: ${DEFAULT-VALUE}).")
  private Duration xidRecovery;

  @Option(
      names = "--nvml-stall",
      paramLabel = "DURATION",
      defaultValue = "5s",
      converter = DurationConverter.class,
      description =
          "How long the driver may take for an answer until its GPUs count as unknown (default:"
              + " ${DEFAULT-VALUE}).")
  private Duration nvmlStall;

  @Option(
      names = "--lock-dir",
      paramLabel = "DIR",
      defaultValue = "/tmp",
      description =
          "Folder of the lock files tmp_lock_sysgpus and tmp_lock_gpu0 ..., shared with everyone on"
              + " this machine who uses them (default: ${DEFAULT-VALUE}).")
  private Path lockDir;

  @Option(
      names = "--state-dir",
      paramLabel = "DIR",
      description =
          "Folder in which this server remembers reservations over restarts (default:"
              + " /var/lib/berth/NAME as root, else ~/.local/state/berth/NAME).")
  private Optional<Path> stateDir = Optional.empty();

  @Option(
      names = "--port-range",
      paramLabel = "FIRST-LAST",
      defaultValue = "20000-20999",
      description = "TCP ports that reservations may hold (default: ${DEFAULT-VALUE}).")
  private String portRange;

  @Option(
      names = "--ignore-strangers",
      description =
          "Give out GPUs although processes without a reservation use them. Without it, such GPUs"
              + " are left alone.")
  private boolean ignoreStrangers;

  @Override
  public Integer call() throws InterruptedException {
    String serverName = name.orElseGet(BerthdCommand::hostName);
    check(
        "--name",
        serverName.matches("[A-Za-z0-9][A-Za-z0-9._-]*"),
        "must be made of letters, digits, dots and dashes");
    check(
        "--sample-interval",
        sampleInterval.compareTo(Duration.ofMillis(50)) >= 0,
        "must be at least 50ms");
    check(
        "--nvml-stall", nvmlStall.compareTo(Duration.ofMillis(100)) >= 0, "must be at least 100ms");
    check(
        "--simulate-gpus",
        simulateGpus.isEmpty() || nvmlLibrary.isEmpty(),
        "and --nvml-library exclude each other");

    var timing = new GpuMonitor.Timing(sampleInterval, xidRecovery, nvmlStall);
    Address address = daemon.address();
    // The first to be opened is the last to be closed: the process ends with it.
    try (Termination termination = Termination.onSignal();
        GpuMonitor gpus =
            simulateGpus.isPresent()
                ? GpuMonitor.ofSimulation(simulateGpus.get(), serverName, timing)
                : GpuMonitor.ofNvml(nvmlLibrary, timing)) {
      gpus.awaitFirstSample(nvmlStall);
      var settings =
          new Reservations.Settings(
              serverName,
              lockDir,
              stateDir.orElseGet(() -> defaultStateDir(serverName)),
              portRange,
              ignoreStrangers);
      try (Reservations reservations = Reservations.open(settings, gpus);
          RpcServer server =
              RpcServer.listenOn(address)
                  .insecureBeyondLoopback(daemon.insecure())
                  .service(new GpuGrpcService(serverName, gpus))
                  .service(new ReservationGrpcService(serverName, reservations))
                  .endStreams(reservations::close)
                  .endStreams(gpus::close)
                  .start()) {
        log.info("{} listens on {}", serverName, server.address());
        termination.await();
        log.info("stopping");
      }
    }
    return ExitCode.OK;
  }

  private static void check(String option, boolean holds, String otherwise) {
    if (!holds) {
      throw new BerthException(Reason.INVALID, option + " " + otherwise);
    }
  }

  private static Path defaultStateDir(String serverName) {
    String home = System.getProperty("user.home");
    Path base =
        "root".equals(System.getProperty("user.name"))
            ? Path.of("/var/lib")
            : Path.of(home, ".local", "state");
    return base.resolve("berth").resolve(serverName);
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
