package berth.registry.directory;

import berth.v1.GpuState;
import berth.v1.Server;
import berth.v1.Service;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * A server of the roster, with what queries ask for prepared.
 *
 * @param revision of its newest change
 * @param infoRevision of the newest change of what it says of itself
 * @param gpusRevision of the newest change of which GPUs are free
 * @param services the names and aliases of its services, in lower case
 * @param gpus its GPUs, those that can be used and those that cannot
 */
record Listed(
    Server server,
    long revision,
    long infoRevision,
    long gpusRevision,
    Set<String> services,
    List<ListedGpu> gpus) {

  /**
   * @param model in lower case
   * @param memory all of it, in bytes; 0: unknown
   * @param freeMemory in bytes; 0: unknown
   */
  record ListedGpu(
      int index, String uuid, String model, long memory, GpuState state, long freeMemory) {
    boolean isFree() {
      return state == GpuState.GPU_STATE_FREE;
    }

    boolean isHealthy() {
      return state != GpuState.GPU_STATE_UNHEALTHY && state != GpuState.GPU_STATE_UNSPECIFIED;
    }

    /** Whether it is of a model, in lower case, and has so much memory. */
    boolean is(String wantedModel, long minMemory) {
      return model.contains(wantedModel) && (minMemory == 0 || memory >= minMemory);
    }
  }

  static Listed of(Server server, long revision, Optional<Listed> before) {
    boolean sameInfo = before.isPresent() && before.get().server.getInfo().equals(server.getInfo());
    List<ListedGpu> gpus = gpus(server);
    boolean sameGpus = before.isPresent() && before.get().gpus.equals(gpus);
    return new Listed(
        server,
        revision,
        sameInfo ? before.get().infoRevision : revision,
        sameGpus ? before.get().gpusRevision : revision,
        sameInfo ? before.get().services : services(server),
        sameGpus ? before.get().gpus : gpus);
  }

  String name() {
    return server.getInfo().getName();
  }

  private static Set<String> services(Server server) {
    Set<String> names = new HashSet<>();
    for (Service service : server.getInfo().getServicesList()) {
      names.add(lower(service.getName()));
      service.getAliasesList().forEach(alias -> names.add(lower(alias)));
    }
    return Set.copyOf(names);
  }

  // The two lists are the server's own, and may differ for a moment: only what is in both counts.
  private static List<ListedGpu> gpus(Server server) {
    List<ListedGpu> gpus = new ArrayList<>();
    var statuses = server.getStatus().getGpusList();
    for (var info : server.getInfo().getGpusList()) {
      for (var status : statuses) {
        if (status.getIndex() == info.getIndex()) {
          gpus.add(
              new ListedGpu(
                  info.getIndex(),
                  info.getUuid(),
                  // The same few models appear thousands of times.
                  lower(info.getModel()).intern(),
                  info.getMemoryBytes(),
                  status.getState(),
                  status.getFreeMemoryBytes()));
          break;
        }
      }
    }
    return List.copyOf(gpus);
  }

  static String lower(String text) {
    return text.toLowerCase(Locale.ROOT);
  }
}
