package berth.server.cluster;

import berth.rpc.StreamFeed;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.WatchClusterResponse;

/**
 * One reader of a cluster: knows what it has been told last, and is told the cluster as it is when
 * it reads.
 */
final class ClusterReader implements StreamFeed.Source<WatchClusterResponse> {
  private final Clusters clusters;
  private final StoredCluster cluster;
  private final boolean once;
  private ClusterStatus told = ClusterStatus.getDefaultInstance();
  private boolean ended;

  /**
   * @param once whether the first answer is the last
   */
  ClusterReader(Clusters clusters, StoredCluster cluster, boolean once) {
    this.clusters = clusters;
    this.cluster = cluster;
    this.once = once;
  }

  @Override
  public WatchClusterResponse next() {
    if (ended) {
      return null;
    }
    ClusterStatus status = clusters.status(cluster);
    if (status.equals(told)) {
      return null;
    }
    told = status;
    ended = once || status.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED;
    return WatchClusterResponse.newBuilder().setCluster(status).build();
  }

  @Override
  public boolean ended() {
    return ended;
  }
}
