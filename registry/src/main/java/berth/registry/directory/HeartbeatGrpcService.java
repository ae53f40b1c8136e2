package berth.registry.directory;

import berth.rpc.Statuses;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.Executor;

/**
 * One server's stream of heartbeats. Those that come faster than the store takes them are joined to
 * one, so a stream keeps one heartbeat at most.
 */
final class HeartbeatGrpcService implements StreamObserver<HeartbeatRequest> {
  private final ServerCallStreamObserver<HeartbeatResponse> observer;
  private final Directory directory;
  private final DirectoryMetrics metrics;
  private final Executor executor;
  private Runnable onEnd = () -> {};
  private HeartbeatRequest pending;
  private boolean working;
  private boolean ended;

  HeartbeatGrpcService(
      StreamObserver<HeartbeatResponse> observer,
      Directory directory,
      DirectoryMetrics metrics,
      Executor executor) {
    this.observer = (ServerCallStreamObserver<HeartbeatResponse>) observer;
    this.directory = directory;
    this.metrics = metrics;
    this.executor = executor;
    // Without a handler gRPC would throw at whoever answers after the end.
    this.observer.setOnCancelHandler(this::end);
  }

  /** Runs {@code action} when the stream is over. To be called once, before the first message. */
  void onEnd(Runnable action) {
    onEnd = action;
  }

  /** Ends the stream with the status of {@code failure}. */
  void fail(Throwable failure) {
    if (end()) {
      observer.onError(Statuses.toException(failure));
    }
  }

  @Override
  public void onNext(HeartbeatRequest request) {
    synchronized (this) {
      pending = pending == null ? request : joined(pending, request);
      if (working || ended) {
        return;
      }
      working = true;
    }
    executor.execute(this::work);
  }

  @Override
  public void onError(Throwable failure) {
    end();
  }

  @Override
  public void onCompleted() {
    if (end()) {
      observer.onCompleted();
    }
  }

  private void work() {
    while (true) {
      HeartbeatRequest request;
      synchronized (this) {
        if (pending == null || ended) {
          working = false;
          return;
        }
        request = pending;
        pending = null;
      }
      try {
        ServerRules.check(request);
        HeartbeatResponse response = directory.heartbeat(ServerRules.cleaned(request));
        metrics.heartbeat(response);
        answer(response);
      } catch (RuntimeException | Error e) {
        fail(e);
      }
    }
  }

  // Who does not read its answers misses those that say nothing new.
  private synchronized void answer(HeartbeatResponse response) {
    if (!ended && (observer.isReady() || !response.getKnown())) {
      observer.onNext(response);
    }
  }

  private boolean end() {
    synchronized (this) {
      if (ended) {
        return false;
      }
      ended = true;
      pending = null;
    }
    onEnd.run();
    return true;
  }

  private static HeartbeatRequest joined(HeartbeatRequest earlier, HeartbeatRequest later) {
    HeartbeatRequest.Builder joined = later.toBuilder();
    if (earlier.hasInfo() && !later.hasInfo()) {
      joined.setInfo(earlier.getInfo());
    }
    if (earlier.hasStatus() && !later.hasStatus()) {
      joined.setStatus(earlier.getStatus());
    }
    return joined.build();
  }
}
