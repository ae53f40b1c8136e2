package berth.client.spec;

import berth.rpc.Address;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A server: what it said of itself last, to the registry a heartbeat ago at most.
 *
 * @param address where to call it
 * @param gpus by ascending index
 * @param memoryBytes memory of the machine; 0 if nobody knows
 * @param freeMemoryBytes about how much of that programs could get; 0 if nobody knows
 * @param cpus processors of the machine; 0 if nobody knows
 * @param labels what its administrator says of it
 * @param services the names of its services, with their aliases, in lower case
 * @param runtime how it runs code: {@code docker} or {@code process}
 * @param simulated whether its GPUs are
 * @param canRun whether it can run code at present
 * @param draining whether it grants nothing at present
 * @param queueLength how many requests wait there
 * @param problem why it cannot serve as it should; empty if all is well
 */
public record GpuServer(
    String name,
    Address address,
    List<ServerGpu> gpus,
    long memoryBytes,
    long freeMemoryBytes,
    int cpus,
    Map<String, String> labels,
    Set<String> services,
    String runtime,
    boolean simulated,
    boolean canRun,
    boolean draining,
    int queueLength,
    String problem) {

  public GpuServer {
    gpus = List.copyOf(gpus);
    labels = Map.copyOf(labels);
    services = Set.copyOf(services);
  }

  /** One of which nothing is known but where it is. */
  public static GpuServer unseen(String name, Address address) {
    return new GpuServer(
        name,
        address,
        List.of(),
        0,
        0,
        0,
        Map.of(),
        Set.of(),
        "",
        false,
        false,
        false,
        0,
        "no heartbeat");
  }

  /** How many of its GPUs nobody holds or uses. */
  public int freeGpus() {
    return (int) gpus.stream().filter(ServerGpu::free).count();
  }
}
