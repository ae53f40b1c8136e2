package berth.server.presence;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replicas.Replica;
import berth.rpc.Statuses;
import berth.v1.DeregisterRequest;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.RegistryServiceGrpc;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** The calls by which a server makes itself known. Every failure is a {@link BerthException}. */
final class PresenceClient {
  private PresenceClient() {}

  static RegisterResponse register(Replica registry, RegisterRequest request, Duration timeout) {
    try {
      return RegistryServiceGrpc.newBlockingStub(registry.channel())
          .withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS)
          .register(request);
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, registry.peer());
    }
  }

  static void deregister(Replica registry, String name, String instance, Duration timeout) {
    try {
      RegistryServiceGrpc.newBlockingStub(registry.channel())
          .withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS)
          .deregister(DeregisterRequest.newBuilder().setName(name).setInstance(instance).build());
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, registry.peer());
    }
  }

  /** Opens a stream of heartbeats. */
  static Heartbeats heartbeats(Replica registry) {
    Heartbeats heartbeats = new Heartbeats(registry.peer());
    RegistryServiceGrpc.newStub(registry.channel()).heartbeat(heartbeats);
    return heartbeats;
  }

  /** One stream of heartbeats, each of which waits for its answer. For one thread. */
  static final class Heartbeats
      implements ClientResponseObserver<HeartbeatRequest, HeartbeatResponse>, AutoCloseable {
    private final String peer;
    private ClientCallStreamObserver<HeartbeatRequest> requests;
    private HeartbeatResponse answer;
    private Throwable failure;
    private boolean over;

    private Heartbeats(String peer) {
      this.peer = peer;
    }

    /**
     * Sends a heartbeat and returns its answer.
     *
     * @throws BerthException TIMED_OUT if there is none in time, or why the stream broke
     */
    synchronized HeartbeatResponse beat(HeartbeatRequest request, Duration timeout)
        throws InterruptedException {
      answer = null;
      if (!over) {
        requests.onNext(request);
      }
      long deadline = System.nanoTime() + timeout.toNanos();
      while (answer == null && !over) {
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          throw new BerthException(Reason.TIMED_OUT, peer + " does not answer heartbeats");
        }
        TimeUnit.NANOSECONDS.timedWait(this, left);
      }
      if (answer != null) {
        return answer;
      }
      BerthException why = failure == null ? null : Statuses.fromStatus(failure, peer);
      throw why == null || why.reason() == Reason.CANCELLED
          ? new BerthException(Reason.UNAVAILABLE, peer + " ended the heartbeats", failure)
          : why;
    }

    @Override
    public void close() {
      requests.cancel("the server has no more heartbeats for this registry", null);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<HeartbeatRequest> stream) {
      requests = stream;
    }

    @Override
    public synchronized void onNext(HeartbeatResponse response) {
      answer = response;
      notifyAll();
    }

    @Override
    public synchronized void onError(Throwable why) {
      failure = why;
      over = true;
      notifyAll();
    }

    @Override
    public synchronized void onCompleted() {
      over = true;
      notifyAll();
    }
  }
}
