package berth.server.run.docker;

import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Whether the kernel killed a process of a container for lack of memory, by the kernel's own
 * counts. Any thread may call.
 *
 * <p>Docker is no reliable witness: its shim is told by the kernel at the moment of the kill, but
 * tells the engine only if the container's group is still there when it gets to it, and on a busy
 * machine the container has ended and its group is removed by then. The group's own count is gone
 * too. The count of the whole machine stays; it is compared with what it was when the container was
 * last seen without such a kill.
 */
final class OutOfMemoryKills {
  private static final Path MACHINE = Path.of("/proc/vmstat");

  private final Path machine;
  // What the machine's count was when the group's was zero.
  private final Map<String, Long> before = new ConcurrentHashMap<>();

  OutOfMemoryKills() {
    this(MACHINE);
  }

  OutOfMemoryKills(Path machine) {
    this.machine = machine;
  }

  /** Its container has not been started yet. */
  void starts(String runId) {
    note(runId, ContainerGroup.killsIn(machine));
  }

  /** Looks at a container while it runs: the more often, the fewer kills of others count for it. */
  void look(String runId, ContainerGroup group) {
    // In this order: a kill between the two must not be taken for an earlier one.
    OptionalLong now = ContainerGroup.killsIn(machine);
    if (group.outOfMemoryKills().equals(OptionalLong.of(0))) {
      note(runId, now);
    }
  }

  private void note(String runId, OptionalLong now) {
    now.ifPresent(count -> before.put(runId, count));
  }

  /**
   * Whether there was a kill on this machine since the container was last seen without one. False
   * if it never was, or the kernel does not count.
   */
  boolean since(String runId) {
    Long count = before.get(runId);
    return count != null && ContainerGroup.killsIn(machine).orElse(count) > count;
  }

  void forget(String runId) {
    before.remove(runId);
  }
}
