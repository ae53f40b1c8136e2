package berth.server;

import berth.command.DaemonOptions;
import berth.command.DurationConverter;
import berth.command.ExitCode;
import berth.command.HttpOptions;
import berth.command.SizeConverter;
import berth.command.Termination;
import berth.command.Version;
import berth.command.Vitals;
import berth.discovery.Discovery;
import berth.discovery.FoundRegistry;
import berth.discovery.Reach;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.server.cluster.ClusterGrpcService;
import berth.server.cluster.Clusters;
import berth.server.cluster.SupervisorSandbox;
import berth.server.gpu.GpuGrpcService;
import berth.server.gpu.GpuMonitor;
import berth.server.overview.Lookout;
import berth.server.overview.OverviewGrpcService;
import berth.server.presence.Presence;
import berth.server.reservation.KernelFiles;
import berth.server.reservation.ReservationGrpcService;
import berth.server.reservation.Reservations;
import berth.server.run.ClosedFolders;
import berth.server.run.MountRules;
import berth.server.run.RunGrpcService;
import berth.server.run.RunMessages;
import berth.server.run.Runs;
import berth.server.run.Runtime;
import berth.server.run.Services;
import berth.server.run.UidRange;
import berth.server.run.docker.DockerRuntime;
import berth.server.run.process.ProcessRuntime;
import berth.server.state.DurableFiles;
import berth.server.state.EarlierVersion;
import berth.v1.ServerInfo;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
        "The Berth server daemon: monitors and reserves the GPUs of this machine and runs code on"
            + " them.",
    footer = {
      "",
      "Every option except --config, --stacktrace, --help and --version can be set in the file, for"
          + " example 'listen: 127.0.0.1:18812'.",
      "",
      "Examples:",
      "  berthd --config /etc/berth/berthd.yaml",
      "  berthd --simulate-gpus 4 --runtime process --registry none",
      "",
      "Durations: 500ms, 30s, 10m, 1h30m, 2d.",
    })
final class BerthdCommand implements Callable<Integer> {
  private static final Logger log = LoggerFactory.getLogger("berthd");
  private static final int PORT = 18812;
  private static final int MAX_CONNECTIONS = 4000;
  private static final int HTTP_PORT = 18882;
  private static final int REGISTRY_PORT = 18811;
  private static final int LONGEST_LABEL = 300;
  private static final String UNIX = "unix://";
  private static final String NO_REGISTRY = "none";
  private static final Duration DISCOVERY_TIMEOUT = Duration.ofSeconds(1);

  @Mixin private final DaemonOptions daemon = new DaemonOptions(PORT, MAX_CONNECTIONS);

  @Mixin private final HttpOptions http = new HttpOptions(HTTP_PORT);

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Server name (default: the host name).")
  private Optional<String> name = Optional.empty();

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

  @Option(
      names = "--registry",
      paramLabel = "HOST[:PORT]",
      split = ",",
      defaultValue = "${BERTH_REGISTRY:-}",
      description =
          "Registry to register with, or a comma-separated list of replicas; 'none' for none"
              + " (default: $BERTH_REGISTRY, else discovery on the local network, or on this"
              + " machine only if this server listens on loopback).")
  private List<String> registry;

  @Option(
      names = "--advertise",
      paramLabel = "HOST[:PORT]",
      description =
          "Address advertised to clients (default: the listen address, or the one used to reach the"
              + " registry).")
  private Optional<String> advertise = Optional.empty();

  @Option(
      names = "--label",
      paramLabel = "KEY=VALUE",
      split = ",",
      description = "Label of this server, for example room=b12; repeatable.")
  private Map<String, String> labels = Map.of();

  /** How runs are run. */
  enum RuntimeKind {
    docker,
    process
  }

  @Override
  public Integer call() throws InterruptedException {
    String serverName = name.orElseGet(DaemonOptions::hostName);
    check(serverName);

    Metrics metrics = new Metrics();
    Vitals vitals = new Vitals();
    vitals.reportTo(metrics);
    Address address = daemon.address();
    Path state = stateDir.orElseGet(() -> defaultStateDir(serverName));
    EarlierVersion.refuse(state);
    // The first to be opened is the last to be closed: the process ends with it.
    try (Termination termination = Termination.onSignal();
        DurableFiles durable = new DurableFiles(vitals);
        GpuMonitor gpus = monitor(serverName, new GpuMonitor.Host(state, durable, vitals))) {
      gpus.awaitFirstSample(nvmlStall);
      gpus.reportTo(metrics);
      Services catalogue = services.map(Services::load).orElseGet(Services::none);
      Optional<Address> advertised = advertise.map(text -> Address.parse(text, 0));
      Presence.checkReachable(advertised, address, registries());
      var settings =
          new Reservations.Settings(
              serverName,
              lockDir,
              state,
              portRange,
              ignoreStrangers,
              maxWaiting,
              maxWaitingPerOwner);
      try (Reservations reservations = Reservations.open(settings, gpus, durable, vitals, metrics);
          Runtime runs = runtime(serverName, state, gpus.newest().simulated());
          Runs allRuns =
              Runs.open(
                  runSettings(serverName, state, catalogue, runs),
                  reservations,
                  gpus,
                  runs,
                  durable,
                  vitals,
                  metrics);
          Clusters clusters =
              Clusters.open(
                  clusterSettings(serverName, state), durable, allRuns::unpackBundle, metrics);
          ClusterGrpcService clusterService = new ClusterGrpcService(clusters);
          Lookout lookout = Lookout.over(serverName, gpus, reservations, allRuns, clusters);
          OverviewGrpcService overview = new OverviewGrpcService(lookout);
          RpcServer server =
              RpcServer.listenOn(address)
                  .insecureBeyondLoopback(daemon.insecure())
                  .maxConnections(daemon.maxConnections(), daemon.maxConnectionsPerClient())
                  // Each may be a stream of output that nobody reads.
                  .maxCallsPerClient(daemon.maxConnectionsPerClient())
                  .metrics(metrics)
                  .healthyUnless(vitals::problem)
                  .service(new GpuGrpcService(serverName, gpus))
                  .service(new ReservationGrpcService(serverName, reservations))
                  .service(new RunGrpcService(serverName, allRuns))
                  .service(clusterService)
                  .service(overview)
                  .endStreams(overview::close)
                  .endStreams(clusterService::close)
                  .endStreams(clusters::close)
                  .endStreams(allRuns::close)
                  .endStreams(reservations::close)
                  .endStreams(gpus::close)
                  .start();
          HttpServer numbers =
              http.serve(
                  daemon, metrics, vitals, routes -> addReady(routes, gpus, allRuns, vitals))) {
        if (numbers != null) {
          log.info("its metrics are http://{}/metrics", numbers.address());
        }
        log.info("{} listens on {}", serverName, server.address());
        Optional<Presence> presence =
            registry.contains(NO_REGISTRY)
                ? Optional.empty()
                : Optional.of(
                    Presence.start(
                        new Presence.Settings(
                            this::findRegistries,
                            advertised,
                            server.address(),
                            info(serverName, catalogue)),
                        gpus,
                        reservations,
                        allRuns,
                        vitals,
                        metrics));
        termination.await();
        log.info("stopping");
        presence.ifPresent(Presence::close);
      }
    }
    return ExitCode.OK;
  }

  /**
   * Refuses what no server can be started with.
   *
   * @throws BerthException INVALID
   */
  void check(String serverName) {
    check(
        "--name",
        serverName.matches("[A-Za-z0-9][A-Za-z0-9._-]*"),
        "must be made of letters, digits, dots and dashes");
    labels.forEach((key, value) -> PlainText.check("--label", key + "=" + value, LONGEST_LABEL));
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

    check("--max-waiting", maxWaiting >= 0, "must not be negative");
    check("--max-waiting-per-owner", maxWaitingPerOwner >= 0, "must not be negative");
  }

  private GpuMonitor monitor(String serverName, GpuMonitor.Host host) {
    var timing = new GpuMonitor.Timing(sampleInterval, nvmlStall);
    return simulateGpus.isPresent()
        ? GpuMonitor.ofSimulation(simulateGpus.get(), serverName, timing, host)
        : GpuMonitor.ofNvml(nvmlLibrary, timing, host);
  }

  private static void addReady(
      HttpServer.Builder routes, GpuMonitor gpus, Runs runs, Vitals vitals) {
    routes.get(
        "/readyz",
        call -> {
          Optional<String> problem =
              vitals.problem().or(() -> runs.load().problem()).or(() -> gpus.newest().problem());
          call.reply(HttpReply.text(problem.isEmpty() ? 200 : 503, problem.orElse("ok")));
        });
  }

  private Runtime runtime(String serverName, Path state, boolean simulated) {
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

  Runs.Settings runSettings(String serverName, Path state, Services catalogue, Runtime runs) {
    var closed = new ClosedFolders(state, lockDir, () -> runs.info().folders());
    return new Runs.Settings(
        serverName,
        state,
        catalogue,
        MountRules.parse(allowMount, closed),
        UidRange.parse(supervisorUids),
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
        ignoreStrangers);
  }

  private Clusters.Settings clusterSettings(String serverName, Path state) {
    // A berthd that was started from elsewhere than an installation has no berth beside it.
    Optional<String> home = Optional.ofNullable(System.getProperty("berth.home"));
    List<Path> programs = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"))));
    home.ifPresent(installed -> programs.add(Path.of(installed)));
    return new Clusters.Settings(
        serverName,
        state,
        home.map(installed -> List.of(installed + "/bin/berth", "supervise")).orElse(List.of()),
        SupervisorSandbox.of(UidRange.parse(supervisorUids), programs),
        () -> registry.contains(NO_REGISTRY) ? List.of() : findRegistries(),
        Clusters.Timing.usual());
  }

  private ServerInfo info(String serverName, Services catalogue) {
    return ServerInfo.newBuilder()
        .setName(serverName)
        .addAllServices(RunMessages.services(catalogue))
        .setCpus(java.lang.Runtime.getRuntime().availableProcessors())
        .putAllLabels(labels)
        .setVersion(Version.current())
        .setRuntime(runtime.name())
        .build();
  }

  List<Address> registries() {
    return registry.stream()
        .filter(text -> !text.isBlank() && !text.equals(NO_REGISTRY))
        .map(text -> Address.parse(text, REGISTRY_PORT))
        .toList();
  }

  private List<Address> findRegistries() {
    List<Address> given = registries();
    if (!given.isEmpty()) {
      return given;
    }
    // Nobody elsewhere could call a server that listens on loopback.
    Reach reach = daemon.address().isLoopback() ? Reach.THIS_MACHINE : Reach.LOCAL_NETWORK;
    return Discovery.find(reach, DISCOVERY_TIMEOUT).stream().map(FoundRegistry::address).toList();
  }

  private static void check(String option, boolean holds, String otherwise) {
    if (!holds) {
      throw new BerthException(Reason.INVALID, option + " " + otherwise);
    }
  }

  private static Path defaultStateDir(String serverName) {
    String home = System.getProperty("user.home");
    Path base = KernelFiles.isRoot() ? Path.of("/var/lib") : Path.of(home, ".local", "state");
    return base.resolve("berth").resolve(serverName);
  }
}
