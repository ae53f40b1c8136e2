package berth.registry.web;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.RpcChannel;
import berth.rpc.RpcThreads;
import berth.rpc.Statuses;
import berth.v1.AttachRunRequest;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelRunRequest;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ClusterStatus;
import berth.v1.GetGpuHistoryRequest;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GetRunRequest;
import berth.v1.GpuServiceGrpc;
import berth.v1.OverviewServiceGrpc;
import berth.v1.Run;
import berth.v1.RunEvent;
import berth.v1.RunServiceGrpc;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchOverviewRequest;
import berth.v1.WatchOverviewResponse;
import io.grpc.Channel;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The calls to one server that the page needs. Every failure is a {@link BerthException}. Any
 * thread may call.
 */
final class ServerClient implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(5);

  /** Told what a stream brings, by a thread that must not wait. */
  interface Stream<T> {
    /**
     * @return whether more may come; if not, {@link Reading#more} says when
     */
    boolean next(T message);

    /**
     * It has ended; nothing follows.
     *
     * @param failure null if it ended well
     */
    void ended(BerthException failure);
  }

  /** A stream that is being read. */
  interface Reading {
    /** Lets the next message come. */
    void more();

    /** Ends it; nothing more is told. */
    void cancel();
  }

  private final String peer;
  private final RpcChannel channel;

  ServerClient(Address address, RpcThreads threads) {
    this.peer = "berthd at " + address;
    this.channel = RpcChannel.to(address, threads);
  }

  @Override
  public void close() {
    channel.close();
  }

  /** Reads all that there is to see of the server, as it changes. */
  Reading watchOverview(Stream<WatchOverviewResponse> stream) {
    return read(
        stream,
        observer ->
            OverviewServiceGrpc.newStub(connected())
                .watchOverview(WatchOverviewRequest.getDefaultInstance(), observer));
  }

  /** Reads what becomes of a run and what it prints. */
  Reading attachRun(String runId, long fromOffset, Stream<RunEvent> stream) {
    AttachRunRequest request =
        AttachRunRequest.newBuilder().setRunId(runId).setFromOffset(fromOffset).build();
    return read(
        stream, observer -> RunServiceGrpc.newStub(connected()).attachRun(request, observer));
  }

  Run run(String runId) {
    return call(
        () ->
            RunServiceGrpc.newBlockingStub(connected())
                .withDeadlineAfter(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)
                .getRun(GetRunRequest.newBuilder().setRunId(runId).build())
                .getRun());
  }

  /** A cluster with all attempts of its tasks. */
  ClusterStatus cluster(String clusterId) {
    return call(
        () ->
            ClusterServiceGrpc.newBlockingStub(connected())
                .withDeadlineAfter(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)
                .watchCluster(
                    WatchClusterRequest.newBuilder().setClusterId(clusterId).setOnce(true).build())
                .next()
                .getCluster());
  }

  GetGpuHistoryResponse history() {
    return call(
        () ->
            GpuServiceGrpc.newBlockingStub(connected())
                .withDeadlineAfter(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)
                .getGpuHistory(GetGpuHistoryRequest.getDefaultInstance()));
  }

  void cancel(CancelRunRequest request) {
    call(
        () ->
            RunServiceGrpc.newBlockingStub(connected())
                .withDeadlineAfter(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)
                .cancelRun(request));
  }

  void cancel(CancelClusterRequest request) {
    call(
        () ->
            ClusterServiceGrpc.newBlockingStub(connected())
                .withDeadlineAfter(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)
                .cancelCluster(request));
  }

  // Who asks has pauses of its own.
  private Channel connected() {
    channel.connectNow();
    return channel.channel();
  }

  private <T> T call(Supplier<T> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  private <Q, A> Reading read(
      Stream<A> stream, java.util.function.Consumer<ClientResponseObserver<Q, A>> call) {
    Observer<Q, A> observer = new Observer<>(stream, failure -> Statuses.fromStatus(failure, peer));
    call.accept(observer);
    return observer;
  }

  private static final class Observer<Q, A> implements ClientResponseObserver<Q, A>, Reading {
    private final Stream<A> stream;
    private final Function<Throwable, BerthException> reason;
    private volatile ClientCallStreamObserver<Q> call;
    private volatile boolean cancelled;

    Observer(Stream<A> stream, Function<Throwable, BerthException> reason) {
      this.stream = stream;
      this.reason = reason;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Q> starting) {
      call = starting;
      starting.disableAutoRequestWithInitial(1);
    }

    @Override
    public void onNext(A message) {
      if (!cancelled && stream.next(message)) {
        call.request(1);
      }
    }

    @Override
    public void onError(Throwable failure) {
      if (!cancelled) {
        stream.ended(reason.apply(failure));
      }
    }

    @Override
    public void onCompleted() {
      if (!cancelled) {
        stream.ended(null);
      }
    }

    @Override
    public void more() {
      call.request(1);
    }

    @Override
    public void cancel() {
      cancelled = true;
      call.cancel("no viewers left", null);
    }
  }
}
