package berth.server;

import berth.command.DurationConverter;
import berth.command.SizeConverter;
import berth.server.run.ClosedFolders;
import berth.server.run.MountRules;
import berth.server.run.RunEngine;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.server.run.UidRange;
import berth.server.run.docker.DockerRuntime;
import berth.server.run.process.ProcessRuntime;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options of {@code berthd} for runs: what runs them, and what they may take. */
final class RunOptions {
  private static final String UNIX = "unix://";

  @Option(
      names = "--runtime",
      paramLabel = "docker|process",
      defaultValue = "docker",
      description =
          "Run code in containers, or as processes without isolation (default: ${DEFAULT-VALUE}).")
  private RuntimeKind runtime;

  @Option(
      names = "--allow-root",
      description =
          "With --runtime process as root: allow runs as root or as system users and groups (below"
              + " 1000, except group 100).")
  private boolean allowRoot;

  @Option(
      names = "--docker",
      paramLabel = "ADDRESS",
      defaultValue = "${DOCKER_HOST:-unix:///var/run/docker.sock}",
      description = "Docker engine (default: $DOCKER_HOST, else unix:///var/run/docker.sock).")
  private String docker;

  @Option(
      names = "--services",
      paramLabel = "FILE",
      description =
          "YAML file with services: named images with their defaults. etc/services.yaml has"
              + " TensorFlow, PyTorch and Caffe.")
  private Optional<Path> services = Optional.empty();

  @Option(
      names = "--allow-mount",
      paramLabel = "DIR[:ro]",
      split = ",",
      description =
          "Folder that runs may mount, including its subfolders; ':ro' for read-only; repeatable"
              + " (default: none). Refused for folders that expose the state folder, lock files,"
              + " /proc, /sys, /dev, /run or files of Docker or Berth; /etc, /boot, programs and"
              + " libraries must be read-only.")
  private List<String> allowMount = List.of();

  @Option(
      names = "--caller-grace",
      paramLabel = "DURATION",
      defaultValue = "10s",
      converter = DurationConverter.class,
      description =
          "How long an attached run waits for its client to reconnect (default: ${DEFAULT-VALUE}).")
  private Duration callerGrace;

  @Option(
      names = "--output-limit",
      paramLabel = "SIZE",
      defaultValue = "1g",
      converter = SizeConverter.class,
      description =
          "Maximum stored output per stream of a run; the rest is dropped (default:"
              + " ${DEFAULT-VALUE}).")
  private long outputLimit;

  @Option(
      names = "--bundle-limit",
      paramLabel = "SIZE",
      defaultValue = "1g",
      converter = SizeConverter.class,
      description =
          "Maximum size of an uploaded bundle; unpacked, four times this (default:"
              + " ${DEFAULT-VALUE}).")
  private long bundleLimit;

  @Option(
      names = "--keep-runs",
      paramLabel = "DURATION",
      defaultValue = "7d",
      converter = DurationConverter.class,
      description =
          "Retention of the output and files of ended runs, and of unused bundles (default:"
              + " ${DEFAULT-VALUE}). At most 20000 ended runs are kept.")
  private Duration keepRuns;

  @Option(
      names = "--keep-bytes",
      paramLabel = "SIZE",
      defaultValue = "100g",
      converter = SizeConverter.class,
      description =
          "Disk limit for ended runs and bundles; the oldest are deleted first (default:"
              + " ${DEFAULT-VALUE}).")
  private long keepBytes;

  @Option(
      names = "--least-free-disk",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description =
          "Refuse runs and uploads while the state folder's disk has less free space than this"
              + " (default: 1g, or 5%% of the disk if that is less).")
  private Optional<Long> leastFreeDisk = Optional.empty();

  @Option(
      names = "--work-limit",
      paramLabel = "SIZE",
      defaultValue = "100g",
      converter = SizeConverter.class,
      description =
          "Disk limit per run (work folder, container layer and volumes), checked about every 10 s,"
              + " with many files every 2 min; 0: none (default: ${DEFAULT-VALUE}).")
  private long workLimit;

  @Option(
      names = "--max-runs",
      paramLabel = "N",
      defaultValue = "2000",
      description = "Maximum number of waiting and running runs (default: ${DEFAULT-VALUE}).")
  private int maxRuns;

  @Option(
      names = "--max-runs-per-owner",
      paramLabel = "N",
      defaultValue = "1000",
      description =
          "Maximum number of waiting and running runs per owner (default: ${DEFAULT-VALUE}).")
  private int maxRunsPerOwner;

  @Option(
      names = "--max-request-bytes",
      paramLabel = "SIZE",
      defaultValue = "8g",
      converter = SizeConverter.class,
      description =
          "Disk limit for the uploaded code and files of all waiting and running runs (default:"
              + " ${DEFAULT-VALUE}).")
  private long maxRequestBytes;

  @Option(
      names = "--reap-after",
      paramLabel = "DURATION",
      defaultValue = "1h",
      converter = DurationConverter.class,
      description =
          "Remove the containers of another server of this machine when it has been down for this"
              + " long (default: ${DEFAULT-VALUE}).")
  private Duration reapAfter;

  @Option(
      names = "--supervisor-uids",
      paramLabel = "FROM-TO",
      defaultValue = "2100000000-2100009999",
      description =
          "User IDs for supervisors of detached clusters when running as root; must not belong to"
              + " accounts, and runs cannot use them (default: ${DEFAULT-VALUE}).")
  private String supervisorUids;

  /** How runs are run. */
  enum RuntimeKind {
    docker,
    process
  }

  String runtimeName() {
    return runtime.name();
  }

  Services catalogue() {
    return services.map(Services::load).orElseGet(Services::none);
  }

  UidRange supervisors() {
    return UidRange.parse(supervisorUids);
  }

  RunEngine runtime(String serverName, Path state, boolean simulated) {
    return switch (runtime) {
      case docker ->
          new DockerRuntime(
              new DockerRuntime.Settings(docker, serverName, state, simulated, reapAfter));
      case process -> new ProcessRuntime(id -> Runs.folder(state, id), allowRoot, engineSockets());
    };
  }

  List<Path> engineSockets() {
    return docker.startsWith(UNIX) ? List.of(Path.of(docker.substring(UNIX.length()))) : List.of();
  }

  Runs.Settings settings(
      String serverName,
      Path state,
      ReservationOptions reservations,
      Services catalogue,
      RunEngine engine) {
    var closed = new ClosedFolders(state, reservations.lockDir(), () -> engine.info().folders());
    return new Runs.Settings(
        serverName,
        state,
        catalogue,
        MountRules.parse(allowMount, closed),
        supervisors(),
        callerGrace,
        outputLimit,
        keepRuns,
        bundleLimit,
        new Runs.Storage(
            keepBytes,
            leastFreeDisk,
            workLimit == 0 ? Optional.empty() : Optional.of(workLimit),
            maxRuns,
            maxRunsPerOwner,
            maxRequestBytes),
        reservations.ignoreStrangers());
  }
}
