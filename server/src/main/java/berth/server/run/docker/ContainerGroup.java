package berth.server.run.docker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The memory control group of a container: its processes, and what the kernel counts for them.
 * Docker removes it with the end of the container.
 *
 * @param unified whether it is of the second version of control groups
 */
record ContainerGroup(Path folder, boolean unified) {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");

  /** Of the container of a process; empty if that has ended. */
  static Optional<ContainerGroup> of(int pid) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + pid + "/cgroup"))) {
        String[] parts = line.split(":", 3);
        String relative = parts[2].substring(1);
        if (parts[1].equals("memory")) {
          return Optional.of(new ContainerGroup(ROOT.resolve("memory").resolve(relative), false));
        }
        if (parts[0].equals("0") && parts[1].isEmpty()) {
          return Optional.of(new ContainerGroup(ROOT.resolve(relative), true));
        }
      }
    } catch (IOException | RuntimeException e) {
      // It has ended.
    }
    return Optional.empty();
  }

  /** All processes of the container of a process, itself among them. */
  static Set<Integer> processesWith(int pid) {
    Set<Integer> pids = new HashSet<>(Set.of(pid));
    try {
      Optional<Path> file = of(pid).map(group -> group.folder.resolve("cgroup.procs"));
      for (String line : file.isPresent() ? Files.readAllLines(file.get()) : List.<String>of()) {
        pids.add(Integer.parseInt(line));
      }
    } catch (IOException | NumberFormatException e) {
      // It has ended, or its group is out of sight.
    }
    return pids;
  }

  /** The most memory used so far, in bytes; empty if it has ended, or the kernel is too old. */
  OptionalLong peakMemory() {
    try {
      String file = unified ? "memory.peak" : "memory.max_usage_in_bytes";
      return OptionalLong.of(Long.parseLong(Files.readString(folder.resolve(file)).trim()));
    } catch (IOException | NumberFormatException e) {
      return OptionalLong.empty();
    }
  }

  /** How many of its processes were killed for lack of memory; empty as with the peak. */
  OptionalLong outOfMemoryKills() {
    return killsIn(folder.resolve(unified ? "memory.events" : "memory.oom_control"));
  }

  /** The count in a file of the kernel that has a line for it among others. */
  static OptionalLong killsIn(Path file) {
    try (Stream<String> lines = Files.lines(file)) {
      return lines
          .filter(line -> line.startsWith("oom_kill "))
          .mapToLong(line -> Long.parseLong(line.substring("oom_kill ".length()).trim()))
          .findFirst();
    } catch (IOException | RuntimeException e) {
      return OptionalLong.empty();
    }
  }
}
