package berth.server.cluster;

import berth.metrics.Gauge;
import berth.metrics.Metrics;
import berth.metrics.Readings;
import berth.v1.ClusterPhase;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

/** The metrics of supervised clusters. */
final class ClusterMetrics {
  private static final String PREFIX = "CLUSTER_PHASE_";
  private static final Gauge CLUSTERS =
      Gauge.of(
          "berth_clusters",
          "Clusters that this server supervises or has a record of, by phase. submitted: the"
              + " supervisor has not started yet.",
          "phase");

  private ClusterMetrics() {}

  static void report(Supplier<List<StoredCluster>> clusters, Metrics metrics) {
    metrics.gauges(List.of(CLUSTERS), readings -> read(clusters.get(), readings));
  }

  private static void read(List<StoredCluster> clusters, Readings readings) {
    Map<ClusterPhase, Integer> count = new EnumMap<>(ClusterPhase.class);
    for (StoredCluster cluster : clusters) {
      // Most are over, which is known without a look at the disk.
      ClusterPhase phase =
          cluster.ended() ? ClusterPhase.CLUSTER_PHASE_ENDED : cluster.status().getPhase();
      count.merge(phase, 1, Integer::sum);
    }
    for (ClusterPhase phase : ClusterPhase.values()) {
      if (phase != ClusterPhase.UNRECOGNIZED) {
        readings.set(CLUSTERS, count.getOrDefault(phase, 0), label(phase));
      }
    }
  }

  private static String label(ClusterPhase phase) {
    return phase == ClusterPhase.CLUSTER_PHASE_UNSPECIFIED
        ? "submitted"
        : phase.name().substring(PREFIX.length()).toLowerCase(Locale.ROOT);
  }
}
