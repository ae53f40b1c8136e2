package berth.server.cluster;

import berth.v1.ClusterStatus;
import berth.v1.ListClustersResponse;
import berth.v1.TaskStatus;

/** Writes what we know of clusters as messages of {@code berth/v1/cluster.proto}. */
public final class ClusterMessages {
  private ClusterMessages() {}

  /** All clusters, of the attempts of their tasks only the last. */
  public static ListClustersResponse list(Clusters clusters) {
    return ListClustersResponse.newBuilder()
        .setServer(clusters.serverName())
        .addAllClusters(clusters.list(ClusterMessages::withLastAttempts))
        .build();
  }

  private static ClusterStatus withLastAttempts(ClusterStatus cluster) {
    ClusterStatus.Builder shorter = cluster.toBuilder();
    for (TaskStatus.Builder task : shorter.getTasksBuilderList()) {
      int attempts = task.getAttemptsCount();
      if (attempts > 1) {
        var last = task.getAttempts(attempts - 1);
        task.clearAttempts().addAttempts(last);
      }
    }
    return shorter.build();
  }
}
