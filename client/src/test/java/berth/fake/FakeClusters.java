package berth.fake;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.Statuses;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelClusterResponse;
import berth.v1.ClusterPhase;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ClusterStatus;
import berth.v1.ListClustersRequest;
import berth.v1.ListClustersResponse;
import berth.v1.TaskStatus;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchClusterResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;

/**
 * The clusters of a server that supervises none: a test says how they are, and who watches hears.
 */
public final class FakeClusters extends ClusterServiceGrpc.ClusterServiceImplBase {
  private record Watching(
      String clusterId, ServerCallStreamObserver<WatchClusterResponse> stream) {}

  /** Everybody who began to watch, once it has the first answer. */
  public final BlockingQueue<WatchClusterRequest> watched = new LinkedBlockingQueue<>();

  public final BlockingQueue<CancelClusterRequest> cancelled = new LinkedBlockingQueue<>();

  /** What happens when somebody cancels a cluster that has not ended. */
  public volatile Consumer<CancelClusterRequest> onCancel = request -> {};

  private final String server;
  private final Map<String, ClusterStatus> clusters = new LinkedHashMap<>();
  private final List<Watching> watching = new ArrayList<>();

  FakeClusters(String server) {
    this.server = server;
  }

  /** Says how a cluster is now, and ends the streams of those who watch it if it has ended. */
  public synchronized void put(ClusterStatus cluster) {
    ClusterStatus named = cluster.toBuilder().setServer(server).build();
    clusters.put(named.getClusterId(), named);
    List.copyOf(watching).stream()
        .filter(one -> one.clusterId.equals(named.getClusterId()))
        .forEach(one -> tell(one, named));
  }

  /** Breaks the streams of all who watch, as a server does that stops. */
  public synchronized void breakOff() {
    watching.forEach(
        one ->
            one.stream.onError(
                Statuses.toException(new BerthException(Reason.UNAVAILABLE, server + " stops"))));
    watching.clear();
  }

  @Override
  public synchronized void listClusters(
      ListClustersRequest request, StreamObserver<ListClustersResponse> observer) {
    ListClustersResponse.Builder response = ListClustersResponse.newBuilder().setServer(server);
    clusters.values().forEach(cluster -> response.addClusters(withLastAttempts(cluster)));
    Replies.unary(observer, response::build);
  }

  private static ClusterStatus withLastAttempts(ClusterStatus cluster) {
    ClusterStatus.Builder cut = cluster.toBuilder();
    for (TaskStatus.Builder task : cut.getTasksBuilderList()) {
      while (task.getAttemptsCount() > 1) {
        task.removeAttempts(0);
      }
    }
    return cut.build();
  }

  @Override
  public synchronized void watchCluster(
      WatchClusterRequest request, StreamObserver<WatchClusterResponse> observer) {
    ClusterStatus cluster = clusters.get(request.getClusterId());
    if (cluster == null) {
      observer.onError(Statuses.toException(none(request.getClusterId())));
      return;
    }
    Watching one =
        new Watching(
            request.getClusterId(), (ServerCallStreamObserver<WatchClusterResponse>) observer);
    one.stream.setOnCancelHandler(() -> leave(one));
    watching.add(one);
    tell(one, cluster);
    if (request.getOnce() && watching.remove(one)) {
      observer.onCompleted();
    }
    watched.add(request);
  }

  private void tell(Watching one, ClusterStatus cluster) {
    one.stream.onNext(WatchClusterResponse.newBuilder().setCluster(cluster).build());
    if (cluster.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED) {
      one.stream.onCompleted();
      watching.remove(one);
    }
  }

  private synchronized void leave(Watching one) {
    watching.remove(one);
  }

  @Override
  public void cancelCluster(
      CancelClusterRequest request, StreamObserver<CancelClusterResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          cancelled.add(request);
          check(request.getClusterId());
          onCancel.accept(request);
          return CancelClusterResponse.getDefaultInstance();
        });
  }

  private synchronized void check(String clusterId) {
    ClusterStatus cluster = clusters.get(clusterId);
    if (cluster == null) {
      throw none(clusterId);
    }
    if (cluster.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED) {
      throw new BerthException(Reason.CONFLICT, cluster.getName() + " has ended");
    }
  }

  private static BerthException none(String clusterId) {
    return new BerthException(Reason.NOT_FOUND, "there is no cluster " + clusterId);
  }
}
