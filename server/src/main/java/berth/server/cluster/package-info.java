/**
 * Clusters that live on without the one who started them. {@link berth.server.cluster.Clusters} is
 * the only part that others need.
 *
 * <p>What a cluster is and what becomes of it is known to its supervisor alone, a process of its
 * own. This package brings it what it needs, starts it again when it has ended too early, and tells
 * others what it has written down. All that the two have in common is a folder; {@code
 * ClusterFolder} says what is in it and who writes what.
 */
package berth.server.cluster;
