package berth.registry.web;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.AttachRunRequest;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelClusterResponse;
import berth.v1.CancelRunRequest;
import berth.v1.CancelRunResponse;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ClusterStatus;
import berth.v1.GetGpuHistoryRequest;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GetRunRequest;
import berth.v1.GetRunResponse;
import berth.v1.Gpu;
import berth.v1.GpuHealth;
import berth.v1.GpuHealthState;
import berth.v1.GpuMemory;
import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.OverviewServiceGrpc;
import berth.v1.Run;
import berth.v1.RunEvent;
import berth.v1.RunServiceGrpc;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchClusterResponse;
import berth.v1.WatchOverviewRequest;
import berth.v1.WatchOverviewResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BiConsumer;

/** A server that shows what a test says, on loopback. */
final class FakeBerthd implements AutoCloseable {
  final List<StreamObserver<WatchOverviewResponse>> watchers = new CopyOnWriteArrayList<>();
  final LinkedBlockingQueue<CancelRunRequest> cancelledRuns = new LinkedBlockingQueue<>();
  final LinkedBlockingQueue<CancelClusterRequest> cancelledClusters = new LinkedBlockingQueue<>();
  final LinkedBlockingQueue<AttachRunRequest> attached = new LinkedBlockingQueue<>();
  volatile WatchOverviewResponse first = WatchOverviewResponse.getDefaultInstance();
  volatile GetGpuHistoryResponse history = GetGpuHistoryResponse.getDefaultInstance();
  volatile ClusterStatus cluster = ClusterStatus.getDefaultInstance();
  volatile long outputBytes;
  volatile BiConsumer<AttachRunRequest, ServerCallStreamObserver<RunEvent>> onAttach =
      (request, observer) -> observer.onCompleted();

  private final String name;
  private RpcServer server = listen(new Address("127.0.0.1", 0));

  FakeBerthd(String name) {
    this.name = name;
  }

  private RpcServer listen(Address address) {
    return RpcServer.listenOn(address)
        .service(new Overviews())
        .service(new Gpus())
        .service(new Runs())
        .service(new Clusters())
        .endStreams(this::breakOff)
        .start();
  }

  Address address() {
    return server.address();
  }

  String name() {
    return name;
  }

  /** Stops, as if it were killed, until {@link #start}. */
  void stop() {
    server.close();
  }

  void start() {
    server = listen(server.address());
  }

  void tell(WatchOverviewResponse news) {
    synchronized (watchers) {
      watchers.forEach(watcher -> watcher.onNext(news));
    }
  }

  /** A sample of GPUs of {@code Servers}. */
  WatchOverviewResponse sample(int... utilizations) {
    GpuReport.Builder report = GpuReport.newBuilder().setServer(name).setDriverVersion("550");
    for (int i = 0; i < utilizations.length; i++) {
      report.addGpus(
          Gpu.newBuilder()
              .setIndex(i)
              .setUuid("GPU-" + name + "-" + i)
              .setGpuUtilizationPercent(utilizations[i])
              .setMemory(GpuMemory.newBuilder().setTotalBytes(80L << 30).setUsedBytes(3L << 30))
              .setPowerMilliwatts(61_700)
              .setHealth(GpuHealth.newBuilder().setState(GpuHealthState.GPU_HEALTH_STATE_HEALTHY)));
    }
    return WatchOverviewResponse.newBuilder().setReport(report).build();
  }

  private void breakOff() {
    BerthException stopping = new BerthException(Reason.UNAVAILABLE, "this server is stopping");
    watchers.forEach(watcher -> watcher.onError(Statuses.toException(stopping)));
    watchers.clear();
  }

  @Override
  public void close() {
    server.close();
  }

  private static <T> void answer(StreamObserver<T> observer, T response) {
    observer.onNext(response);
    observer.onCompleted();
  }

  private final class Overviews extends OverviewServiceGrpc.OverviewServiceImplBase {
    @Override
    public void watchOverview(
        WatchOverviewRequest request, StreamObserver<WatchOverviewResponse> observer) {
      ((ServerCallStreamObserver<?>) observer).setOnCancelHandler(() -> watchers.remove(observer));
      // Whoever has heard the first must hear whatever is told after it.
      synchronized (watchers) {
        observer.onNext(first);
        watchers.add(observer);
      }
    }
  }

  private final class Gpus extends GpuServiceGrpc.GpuServiceImplBase {
    @Override
    public void getGpuHistory(
        GetGpuHistoryRequest request, StreamObserver<GetGpuHistoryResponse> observer) {
      answer(observer, history);
    }
  }

  private final class Runs extends RunServiceGrpc.RunServiceImplBase {
    @Override
    public void getRun(GetRunRequest request, StreamObserver<GetRunResponse> observer) {
      if (request.getRunId().equals("nobody's")) {
        observer.onError(
            Statuses.toException(new BerthException(Reason.NOT_FOUND, "there is no such run")));
        return;
      }
      answer(
          observer,
          GetRunResponse.newBuilder().setRun(Run.newBuilder().setOutputBytes(outputBytes)).build());
    }

    @Override
    public void attachRun(AttachRunRequest request, StreamObserver<RunEvent> observer) {
      attached.add(request);
      onAttach.accept(request, (ServerCallStreamObserver<RunEvent>) observer);
    }

    @Override
    public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> observer) {
      cancelledRuns.add(request);
      answer(observer, CancelRunResponse.getDefaultInstance());
    }
  }

  private final class Clusters extends ClusterServiceGrpc.ClusterServiceImplBase {
    @Override
    public void watchCluster(
        WatchClusterRequest request, StreamObserver<WatchClusterResponse> observer) {
      answer(observer, WatchClusterResponse.newBuilder().setCluster(cluster).build());
    }

    @Override
    public void cancelCluster(
        CancelClusterRequest request, StreamObserver<CancelClusterResponse> observer) {
      cancelledClusters.add(request);
      answer(observer, CancelClusterResponse.getDefaultInstance());
    }
  }
}
