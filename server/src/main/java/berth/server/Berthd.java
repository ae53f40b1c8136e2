package berth.server;

import berth.command.Termination;
import berth.command.Version;
import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.host.state.EarlierVersion;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.metrics.CallMetrics;
import berth.metrics.Metrics;
import berth.metrics.VitalMetrics;
import berth.rpc.Address;
import berth.rpc.RpcServer;
import berth.rpc.Vitals;
import berth.server.cluster.ClusterGrpcService;
import berth.server.cluster.Clusters;
import berth.server.cluster.SupervisorSandbox;
import berth.server.gpu.GpuGrpcService;
import berth.server.gpu.GpuMetrics;
import berth.server.overview.OverviewGrpcService;
import berth.server.overview.OverviewPoller;
import berth.server.presence.Presence;
import berth.server.reservation.ReservationGrpcService;
import berth.server.reservation.Reservations;
import berth.server.run.RunEngine;
import berth.server.run.RunGrpcService;
import berth.server.run.RunMessages;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.v1.ServerInfo;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The daemon: opens its parts one after the other, and closes them in reverse order. */
final class Berthd {
  private static final Logger log = LoggerFactory.getLogger("berthd");

  private final BerthdCommand options;
  private final String name;
  private final Path state;
  private final Address address;
  private final Metrics metrics = new Metrics();
  private final Vitals vitals = new Vitals();

  /**
   * @param options checked
   */
  Berthd(BerthdCommand options) {
    this.options = options;
    name = options.serverName();
    state = options.reservations.stateDir(name);
    address = options.daemon.address();
  }

  /** Returns when the process is told to end, and all is closed. */
  void serve() throws InterruptedException {
    VitalMetrics.show(vitals, metrics);
    EarlierVersion.refuse(state);
    // The first to be opened is the last to be closed: the process ends with it.
    try (Termination termination = Termination.onSignal();
        DurableFiles durable = new DurableFiles(vitals);
        GpuMonitor gpus = options.gpus.open(name, new GpuMonitor.Host(state, durable, vitals))) {
      gpus.awaitFirstSample(options.gpus.stall());
      GpuMetrics.show(gpus, metrics);
      Services catalogue = options.runs.catalogue();
      Presence.checkReachable(
          options.presence.advertised(), address, options.presence.registries());
      try (Reservations reservations =
              Reservations.open(
                  options.reservations.settings(name), gpus, durable, vitals, metrics);
          RunEngine runtime = options.runs.runtime(name, state, gpus.newest().simulated());
          Runs runs =
              Runs.open(
                  options.runs.settings(name, state, options.reservations, catalogue, runtime),
                  reservations,
                  gpus,
                  runtime,
                  durable,
                  vitals,
                  metrics);
          Clusters clusters =
              Clusters.open(clusterSettings(), durable, runs::unpackBundle, metrics);
          ClusterGrpcService clusterService = new ClusterGrpcService(clusters);
          OverviewPoller lookout = OverviewPoller.over(name, gpus, reservations, runs, clusters);
          OverviewGrpcService overview = new OverviewGrpcService(lookout);
          RpcServer server =
              RpcServer.listenOn(address)
                  .insecureBeyondLoopback(options.daemon.insecure())
                  .maxConnections(
                      options.daemon.maxConnections(), options.daemon.maxConnectionsPerClient())
                  // Each may be a stream of output that nobody reads.
                  .maxCallsPerClient(options.daemon.maxConnectionsPerClient())
                  .record(new CallMetrics(metrics))
                  .healthyUnless(vitals::problem)
                  .service(new GpuGrpcService(name, gpus))
                  .service(new ReservationGrpcService(name, reservations))
                  .service(new RunGrpcService(name, runs))
                  .service(clusterService)
                  .service(overview)
                  .endStreams(overview::close)
                  .endStreams(clusterService::close)
                  .endStreams(clusters::close)
                  .endStreams(runs::close)
                  .endStreams(reservations::close)
                  .endStreams(gpus::close)
                  .start();
          HttpServer http =
              options.http.serve(
                  options.daemon, metrics, vitals, routes -> addReady(routes, gpus, runs))) {
        if (http != null) {
          log.info("metrics at http://{}/metrics", http.address());
        }
        log.info("{} listens on {}", name, server.address());
        Optional<Presence> presence =
            options.presence.isNone()
                ? Optional.empty()
                : Optional.of(
                    Presence.start(
                        new Presence.Settings(
                            this::findRegistries,
                            options.presence.advertised(),
                            server.address(),
                            info(catalogue)),
                        gpus,
                        reservations,
                        runs,
                        vitals,
                        metrics));
        termination.await();
        log.info("stopping");
        presence.ifPresent(Presence::close);
      }
    }
  }

  private void addReady(HttpServer.Builder routes, GpuMonitor gpus, Runs runs) {
    routes.get(
        "/readyz",
        call -> {
          Optional<String> problem =
              vitals.problem().or(() -> runs.load().problem()).or(() -> gpus.newest().problem());
          call.reply(HttpReply.text(problem.isEmpty() ? 200 : 503, problem.orElse("ok")));
        });
  }

  private Clusters.Settings clusterSettings() {
    // A berthd that was started from elsewhere than an installation has no berth beside it.
    Optional<String> home = Optional.ofNullable(System.getProperty("berth.home"));
    List<Path> programs = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"))));
    home.ifPresent(installed -> programs.add(Path.of(installed)));
    return new Clusters.Settings(
        name,
        state,
        home.map(installed -> List.of(installed + "/bin/berth", "supervise")).orElse(List.of()),
        SupervisorSandbox.of(options.runs.supervisors(), programs),
        this::findRegistries,
        Clusters.Timing.usual());
  }

  private ServerInfo info(Services catalogue) {
    return ServerInfo.newBuilder()
        .setName(name)
        .addAllServices(RunMessages.services(catalogue))
        .setCpus(Runtime.getRuntime().availableProcessors())
        .putAllLabels(options.presence.labels())
        .setVersion(Version.current())
        .setRuntime(options.runs.runtimeName())
        .build();
  }

  private List<Address> findRegistries() {
    return options.presence.find(address);
  }
}
