package berth.server;

import berth.fuzz.Scratch;
import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.cluster.ClusterGrpcService;
import berth.server.cluster.Clusters;
import berth.server.cluster.EndedCluster;
import berth.server.cluster.SupervisorSandbox;
import berth.server.gpu.GpuGrpcService;
import berth.server.overview.OverviewGrpcService;
import berth.server.overview.OverviewPoller;
import berth.server.reservation.ReservationGrpcService;
import berth.server.reservation.Reservations;
import berth.server.run.EndedRun;
import berth.server.run.MountRules;
import berth.server.run.RunGrpcService;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.server.run.UidRange;
import berth.server.run.process.ProcessRuntime;
import io.grpc.BindableService;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The services of berthd without its sockets, on a simulated GPU and in a folder of their own. They
 * know a run and a cluster, both of them over.
 */
public final class LocalServer implements AutoCloseable {
  /** The most bytes that a bundle may have. */
  public static final int BUNDLE_LIMIT = 1 << 16;

  private static final String NAME = "gpu1";
  private static final UidRange SUPERVISORS = UidRange.parse("2100000000-2100009999");
  private static final Duration LONG = Duration.ofDays(1);

  private final Path folder;
  private final DurableFiles disk;
  private final GpuMonitor gpus;
  private final Reservations reservations;
  private final Runs runs;
  private final Clusters clusters;
  private final OverviewPoller lookout;
  private final List<ServerServiceDefinition> services;

  public LocalServer() throws IOException, InterruptedException {
    folder = new Scratch().empty();
    Vitals vitals = new Vitals();
    Metrics metrics = new Metrics();
    disk = new DurableFiles(vitals);
    EndedRun.write(state(), disk);
    EndedCluster.write(state(), disk);
    gpus = GpuMonitor.ofSimulation("1", NAME, new GpuMonitor.Timing(LONG, LONG));
    if (!gpus.awaitFirstSample(Duration.ofSeconds(20))) {
      throw new IllegalStateException("the simulated GPU is not seen");
    }
    reservations =
        Reservations.open(
            new Reservations.Settings(
                NAME,
                Files.createDirectory(folder.resolve("locks")),
                state(),
                "20000-20999",
                false),
            gpus,
            disk,
            vitals,
            metrics);
    runs = openRuns(vitals, metrics);
    clusters = openClusters(metrics);
    lookout = OverviewPoller.over(NAME, gpus, reservations, runs, clusters);
    services =
        List.of(
                new GpuGrpcService(NAME, gpus),
                new ReservationGrpcService(NAME, reservations),
                new RunGrpcService(NAME, runs),
                new ClusterGrpcService(clusters),
                new OverviewGrpcService(lookout))
            .stream()
            .map(BindableService::bindService)
            .toList();
  }

  private Runs openRuns(Vitals vitals, Metrics metrics) {
    return Runs.open(
        new Runs.Settings(
            NAME,
            state(),
            Services.none(),
            MountRules.none(),
            SUPERVISORS,
            LONG,
            1 << 20,
            LONG,
            BUNDLE_LIMIT,
            new Runs.Storage(1 << 30, Optional.of(0L), Optional.empty(), 10, 10, 1 << 20),
            false),
        reservations,
        gpus,
        new ProcessRuntime(id -> Runs.folder(state(), id), true),
        disk,
        vitals,
        metrics);
  }

  private Clusters openClusters(Metrics metrics) {
    return Clusters.open(
        new Clusters.Settings(
            NAME,
            state(),
            List.of(),
            SupervisorSandbox.of(SUPERVISORS, List.of()),
            List::of,
            Clusters.Timing.usual()),
        disk,
        (digest, into) -> {
          throw new BerthException(Reason.NOT_FOUND, "no bundle " + digest);
        },
        metrics);
  }

  /** Everything is below it. */
  public Path folder() {
    return folder;
  }

  public Path state() {
    return folder.resolve("state");
  }

  /**
   * One of its methods.
   *
   * @param name such as {@code berth.v1.RunService/GetRun}
   */
  public ServerMethodDefinition<?, ?> method(String name) {
    for (ServerServiceDefinition service : services) {
      ServerMethodDefinition<?, ?> method = service.getMethod(name);
      if (method != null) {
        return method;
      }
    }
    throw new NoSuchElementException(name);
  }

  @Override
  public void close() {
    lookout.close();
    clusters.close();
    runs.close();
    reservations.close();
    gpus.close();
    disk.close();
  }
}
