package berth.server.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.Statuses;
import berth.rpc.StreamFeed;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelClusterResponse;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ListClustersRequest;
import berth.v1.ListClustersResponse;
import berth.v1.StartClusterRequest;
import berth.v1.StartClusterResponse;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchClusterResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Speaks gRPC for {@link Clusters}; decides nothing itself. */
public final class ClusterGrpcService extends ClusterServiceGrpc.ClusterServiceImplBase
    implements AutoCloseable {
  private final Clusters clusters;
  private final Set<StreamFeed<?>> watchers = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  public ClusterGrpcService(Clusters clusters) {
    this.clusters = clusters;
  }

  @Override
  public void startCluster(
      StartClusterRequest request, StreamObserver<StartClusterResponse> observer) {
    // Without a handler gRPC would throw at whoever answers after the end.
    ((ServerCallStreamObserver<StartClusterResponse>) observer).setOnCancelHandler(() -> {});
    clusters
        .threads()
        .execute(
            () ->
                Replies.unary(
                    observer,
                    () ->
                        StartClusterResponse.newBuilder()
                            .setClusterId(clusters.start(request).id())
                            .setServer(clusters.serverName())
                            .build()));
  }

  @Override
  public void listClusters(
      ListClustersRequest request, StreamObserver<ListClustersResponse> observer) {
    Replies.unary(observer, () -> ClusterMessages.list(clusters));
  }

  @Override
  public void watchCluster(
      WatchClusterRequest request, StreamObserver<WatchClusterResponse> observer) {
    StoredCluster cluster;
    try {
      cluster = clusters.find(request.getClusterId());
    } catch (RuntimeException e) {
      observer.onError(Statuses.toException(e));
      return;
    }
    StreamFeed<WatchClusterResponse> feed =
        new StreamFeed<>(
            observer, new ClusterReader(clusters, cluster, request.getOnce()), clusters.threads());
    Runnable unlisten = cluster.listen(feed::wake);
    watchers.add(feed);
    feed.onEnd(
        () -> {
          unlisten.run();
          watchers.remove(feed);
        });
    if (closed) {
      feed.fail(stopping());
    }
    feed.wake();
  }

  @Override
  public void cancelCluster(
      CancelClusterRequest request, StreamObserver<CancelClusterResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          clusters.cancel(request);
          return CancelClusterResponse.getDefaultInstance();
        });
  }

  /** Ends all streams. */
  @Override
  public void close() {
    closed = true;
    watchers.forEach(feed -> feed.fail(stopping()));
  }

  private static BerthException stopping() {
    return new BerthException(Reason.UNAVAILABLE, "this server is stopping; its clusters continue");
  }
}
