package berth.registry;

import berth.command.DaemonOptions;
import berth.command.DurationConverter;
import berth.command.HttpOptions;
import berth.command.Termination;
import berth.command.Version;
import berth.discovery.Discovery;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.metrics.CallMetrics;
import berth.metrics.Metrics;
import berth.metrics.VitalMetrics;
import berth.registry.directory.Directory;
import berth.registry.directory.DirectoryMetrics;
import berth.registry.directory.EtcdDirectory;
import berth.registry.directory.LeaseTerms;
import berth.registry.directory.MemoryDirectory;
import berth.registry.directory.RegistryGrpcService;
import berth.registry.discovery.DiscoveryResponder;
import berth.registry.line.TurnLine;
import berth.registry.web.RegistryPage;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.rpc.Vitals;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of {@code berth-registry}, and the wiring of its parts. */
@Command(
    name = "berth-registry",
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    sortOptions = false,
    description =
        "The Berth registry: tracks servers and their free GPUs, and serves the web page.",
    footer = {
      "",
      "Every option except --config, --stacktrace, --help and --version can be set in the file, for"
          + " example 'listen: 127.0.0.1:18811'.",
      "",
      "Examples:",
      "  berth-registry --config /etc/berth/berth-registry.yaml",
      "  berth-registry --listen 0.0.0.0 --insecure",
      "",
      "Durations: 500ms, 30s, 10m, 1h30m, 2d.",
    })
final class RegistryCommand implements Callable<Integer> {
  private static final Logger log = LoggerFactory.getLogger("berth-registry");
  private static final int PORT = 18811;
  private static final int HTTP_PORT = 18880;
  // Nobody has a reason to send more: a registration has at most 64 KiB.
  private static final int MAX_MESSAGE_BYTES = 256 << 10;
  private static final int MAX_SERVERS = 20_000;
  // Of all servers, and of those who look for them.
  private static final int MAX_CONNECTIONS = 40_000;
  private static final int THREADS = 4;
  private static final int STORE_THREADS = 16;

  @Mixin private final DaemonOptions daemon = new DaemonOptions(PORT, MAX_CONNECTIONS);

  @Mixin private final HttpOptions http = new HttpOptions(HTTP_PORT);

  @Option(
      names = "--page-cancel",
      description =
          "Allow all visitors of the web page to cancel runs and clusters (default: read-only).")
  private boolean pageCancel;

  @Option(
      names = "--lease",
      paramLabel = "DURATION",
      defaultValue = "5s",
      converter = DurationConverter.class,
      description =
          "Time after which a silent server is removed; servers report 2.5 times in this interval"
              + " (default: ${DEFAULT-VALUE}).")
  private Duration lease;

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Registry name (default: the host name).")
  private Optional<String> name = Optional.empty();

  @Option(
      names = "--discovery-port",
      paramLabel = "PORT",
      defaultValue = "" + Discovery.PORT,
      description =
          "UDP port for discovery on the local network, or on this machine only if the registry"
              + " listens on loopback; 0: disabled (default: ${DEFAULT-VALUE}).")
  private int discoveryPort;

  @Option(
      names = "--store",
      paramLabel = "memory|etcd",
      defaultValue = "memory",
      description =
          "Storage: memory for a single registry, etcd for replicas (default: ${DEFAULT-VALUE}).")
  private StoreKind store;

  @Option(
      names = "--etcd",
      paramLabel = "HOST:PORT",
      split = ",",
      defaultValue = "127.0.0.1:2379",
      description =
          "With --store etcd: comma-separated etcd endpoints (default: ${DEFAULT-VALUE}).")
  private List<String> etcd;

  @Option(
      names = "--etcd-prefix",
      paramLabel = "TEXT",
      defaultValue = "/berth/",
      description =
          "Prefix of the keys in etcd, the same for all replicas (default: ${DEFAULT-VALUE}).")
  private String etcdPrefix;

  @Option(
      names = "--etcd-compaction",
      paramLabel = "DURATION",
      defaultValue = "1h",
      converter = DurationConverter.class,
      description =
          "Compaction interval of etcd; 0s: never, for a shared etcd or one with automatic"
              + " compaction (default: ${DEFAULT-VALUE}).")
  private Duration etcdCompaction;

  /** Where it is kept who is there. */
  enum StoreKind {
    memory,
    etcd
  }

  @Override
  public Integer call() throws InterruptedException {
    Metrics metrics = new Metrics();
    Vitals vitals = new Vitals();
    VitalMetrics.show(vitals, metrics);
    DirectoryMetrics directoryMetrics = new DirectoryMetrics(metrics);
    LeaseTerms terms = new LeaseTerms(lease, MAX_SERVERS);
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(THREADS, THREADS, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
    ExecutorService storeThreads = Executors.newFixedThreadPool(STORE_THREADS);
    try (Termination termination = Termination.onSignal();
        Directory directory = directory(terms, directoryMetrics, vitals)) {
      TurnLine line = new TurnLine(System::nanoTime);
      RegistryGrpcService service =
          new RegistryGrpcService(directory, directoryMetrics, line, threads, storeThreads);
      service.reportTo(metrics);
      try (RpcServer server =
              RpcServer.listenOn(daemon.address())
                  .insecureBeyondLoopback(daemon.insecure())
                  .maxMessageBytes(MAX_MESSAGE_BYTES)
                  .maxConnections(daemon.maxConnections(), daemon.maxConnectionsPerClient())
                  .executor(threads)
                  .record(new CallMetrics(metrics))
                  .healthyUnless(vitals::problem)
                  .service(service)
                  .endStreams(service::close)
                  .start();
          DiscoveryResponder discovery = answerQueries(server.address());
          RegistryPage page = new RegistryPage(shownName(), directory::roster, pageCancel);
          HttpServer pages =
              http.serve(daemon, metrics, vitals, routes -> addRoutes(routes, page, directory))) {
        if (pages != null) {
          log.info("its page is http://{}/", pages.address());
        }
        if (discovery != null) {
          log.info("answers queries on UDP {}", discovery.address());
        }
        log.info("listens on {}", server.address());
        termination.await();
        log.info("stopping");
      }
    } finally {
      threads.shutdownNow();
      storeThreads.shutdownNow();
    }
    return ExitCode.OK;
  }

  private static void addRoutes(HttpServer.Builder routes, RegistryPage page, Directory directory) {
    page.addTo(routes);
    routes.get(
        "/readyz",
        call -> {
          // Fails as long as it knows nothing that it could tell.
          directory.roster();
          call.reply(HttpReply.text(200, "ok"));
        });
  }

  private String shownName() {
    return name.orElseGet(DaemonOptions::hostName);
  }

  /** Returns null if this registry is not to be found by UDP, or cannot be. */
  private DiscoveryResponder answerQueries(Address registry) {
    if (discoveryPort == 0) {
      return null;
    }
    Address queries = new Address(registry.host(), discoveryPort);
    try {
      return DiscoveryResponder.listenOn(queries, registry.port(), shownName());
    } catch (BerthException e) {
      if (e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      log.warn("discovery is off: {}", e.getMessage());
      return null;
    }
  }

  private Directory directory(LeaseTerms terms, DirectoryMetrics metrics, Vitals vitals) {
    return switch (store) {
      case memory -> new MemoryDirectory(terms, metrics, vitals);
      case etcd -> new EtcdDirectory(terms, etcd, etcdPrefix, etcdCompaction, metrics, vitals);
    };
  }
}
