/**
 * Programs on several servers that know each other's addresses. {@link
 * berth.client.cluster.Planner} places their tasks, {@link berth.client.cluster.Cluster} is the
 * life of them all, {@link berth.client.cluster.ClusterSpec} is what they know of each other,
 * {@link berth.client.cluster.ClusterFile} is how people write them down, {@link
 * berth.client.cluster.ClusterWatch} looks at those that a server supervises.
 */
package berth.client.cluster;
