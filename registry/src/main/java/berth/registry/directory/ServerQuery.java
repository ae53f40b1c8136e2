package berth.registry.directory;

import berth.registry.directory.Listed.ListedGpu;
import berth.v1.ServerFilter;
import java.util.Map;
import java.util.Set;

/** A {@link ServerFilter}, prepared to be asked of thousands of servers. */
final class ServerQuery {
  private final Set<String> names;
  private final String service;
  private final Map<String, String> labels;
  private final String model;
  private final long minMemory;
  private final int minFree;

  private ServerQuery(ServerFilter filter, int minFree) {
    this.names = Set.copyOf(filter.getNamesList());
    this.service = Listed.lower(filter.getService());
    this.labels = Map.copyOf(filter.getLabelsMap());
    this.model = Listed.lower(filter.getModel());
    this.minMemory = filter.getMinGpuMemoryBytes();
    this.minFree = minFree;
  }

  static ServerQuery of(ServerFilter filter) {
    return new ServerQuery(filter, filter.getMinFreeGpus());
  }

  /** The same, for any number of free GPUs. */
  static ServerQuery ofAnyFree(ServerFilter filter) {
    return new ServerQuery(filter, 0);
  }

  boolean matches(Listed listed) {
    return (names.isEmpty() || names.contains(listed.name()))
        && (service.isEmpty() || listed.services().contains(service))
        && (labels.isEmpty()
            || listed.server().getInfo().getLabelsMap().entrySet().containsAll(labels.entrySet()))
        && matchesGpus(listed);
  }

  /**
   * Whether a server that does not match now may have matched when the revision was {@code since}.
   */
  boolean mayHaveMatched(Listed listed, long since) {
    boolean asksForGpus = !model.isEmpty() || minMemory > 0 || minFree > 0;
    return listed.infoRevision() > since || asksForGpus && listed.gpusRevision() > since;
  }

  private boolean matchesGpus(Listed listed) {
    if (model.isEmpty() && minMemory == 0 && minFree == 0) {
      return true;
    }
    int fitting = 0;
    int free = 0;
    for (ListedGpu gpu : listed.gpus()) {
      if (gpu.is(model, minMemory)) {
        fitting++;
        free += gpu.isFree() ? 1 : 0;
      }
    }
    return fitting > 0 && free >= minFree;
  }
}
