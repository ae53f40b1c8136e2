package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcChannel;
import berth.rpc.Statuses;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ClusterServiceGrpc.ClusterServiceBlockingStub;
import berth.v1.ClusterStatus;
import berth.v1.ListClustersRequest;
import berth.v1.ListClustersResponse;
import berth.v1.StartClusterRequest;
import berth.v1.StartClusterResponse;
import berth.v1.WatchClusterRequest;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The clusters that one server supervises. Any thread may call; every failure is a {@link
 * BerthException}. A thread that is interrupted ends its call, and closing this ends all that still
 * run.
 */
public final class ClusterClient implements AutoCloseable {
  private static final Duration DOUBT = Duration.ofSeconds(30);
  private static final Duration ASK_AGAIN = Duration.ofMillis(500);

  private final RpcChannel channel;
  private final String peer;

  private ClusterClient(RpcChannel channel, String peer) {
    this.channel = channel;
    this.peer = peer;
  }

  /** A client of the {@code berthd} at {@code server}. It connects with its first call. */
  public static ClusterClient of(Address server) {
    return over(RpcChannel.to(server), server);
  }

  /** The same over a connection that others use too; closing one of them closes it. */
  static ClusterClient over(RpcChannel channel, Address server) {
    return new ClusterClient(channel, "berthd at " + server);
  }

  /**
   * Hands a cluster over. If the answer is lost, the server is asked again, for half a minute: it
   * knows the request by its id, and another server must not take the cluster too.
   *
   * @param request with an id
   * @throws BerthException CONFLICT if the server may have taken it; anything else if it has not
   */
  public StartClusterResponse start(StartClusterRequest request, Duration timeout) {
    BerthException lost = null;
    long lostSince = 0;
    while (true) {
      try {
        return calling(stub -> within(stub, timeout).startCluster(request));
      } catch (BerthException e) {
        boolean answered = !Statuses.connectionFailed(e) && e.reason() != Reason.TIMED_OUT;
        if (lost == null) {
          if (answered || InDoubt.wasNotReached(e)) {
            throw e;
          }
          lost = e;
          lostSince = System.nanoTime();
        } else if (answered && e.reason() != Reason.UNAVAILABLE) {
          throw e;
        }
        if (System.nanoTime() - lostSince > DOUBT.toNanos()) {
          throw InDoubt.because(
              lost, "it may still supervise " + request.getName() + ": see 'berth clusters'");
        }
      }
      pause();
      connectNow();
    }
  }

  private static void pause() {
    try {
      TimeUnit.NANOSECONDS.sleep(ASK_AGAIN.toNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while handing over a cluster", e);
    }
  }

  public ListClustersResponse list(Duration timeout) {
    return calling(
        stub -> within(stub, timeout).listClusters(ListClustersRequest.getDefaultInstance()));
  }

  /** Returns one cluster, with all that its tasks have been through. */
  public ClusterStatus get(String clusterId, Duration timeout) {
    WatchClusterRequest once =
        WatchClusterRequest.newBuilder().setClusterId(clusterId).setOnce(true).build();
    return calling(stub -> within(stub, timeout).watchCluster(once).next().getCluster());
  }

  /**
   * Passes a cluster to {@code consumer} as it is now, and whenever it changes, in the calling
   * thread. Returns when it has ended; what the consumer throws ends the call too, and is thrown
   * here.
   *
   * @throws BerthException UNAVAILABLE if the connection breaks; calling again is safe
   */
  public void watch(String clusterId, Consumer<ClusterStatus> consumer) {
    // An iterator that is given up would leave its call open.
    Context.CancellableContext context = Context.current().withCancellation();
    try {
      context.run(
          () ->
              calling(
                  stub -> {
                    stub.watchCluster(
                            WatchClusterRequest.newBuilder().setClusterId(clusterId).build())
                        .forEachRemaining(response -> consumer.accept(response.getCluster()));
                    return null;
                  }));
    } finally {
      context.cancel(null);
    }
  }

  /** Returns as soon as the server has taken note. */
  public void cancel(CancelClusterRequest request, Duration timeout) {
    calling(stub -> within(stub, timeout).cancelCluster(request));
  }

  /** Connects with the next call, however many attempts have failed. */
  public void connectNow() {
    channel.connectNow();
  }

  @Override
  public void close() {
    channel.close();
  }

  private <T> T calling(Function<ClusterServiceBlockingStub, T> call) {
    try {
      return call.apply(ClusterServiceGrpc.newBlockingStub(channel.channel()));
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  private static ClusterServiceBlockingStub within(
      ClusterServiceBlockingStub stub, Duration timeout) {
    return stub.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }
}
