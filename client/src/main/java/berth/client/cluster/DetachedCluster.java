package berth.client.cluster;

/**
 * A cluster that goes on without the one who started it.
 *
 * @param id by which its supervisor knows it
 * @param server the name of the server that supervises it
 */
public record DetachedCluster(String id, String name, String server) {}
