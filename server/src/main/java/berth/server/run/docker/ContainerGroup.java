package berth.server.run.docker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;

/** What the kernel tells of a container: its processes, and how much memory it has used at most. */
final class ContainerGroup {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");

  private ContainerGroup() {}

  /** The file with the number, for the container of a process. */
  static Optional<Path> peakFileOf(int pid) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + pid + "/cgroup"))) {
        String[] parts = line.split(":", 3);
        String relative = parts[2].substring(1);
        if (parts[1].equals("memory")) {
          return Optional.of(
              ROOT.resolve("memory").resolve(relative).resolve("memory.max_usage_in_bytes"));
        }
        if (parts[0].equals("0") && parts[1].isEmpty()) {
          return Optional.of(ROOT.resolve(relative).resolve("memory.peak"));
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
      Optional<Path> file = peakFileOf(pid).map(peak -> peak.resolveSibling("cgroup.procs"));
      for (String line : file.isPresent() ? Files.readAllLines(file.get()) : List.<String>of()) {
        pids.add(Integer.parseInt(line));
      }
    } catch (IOException | NumberFormatException e) {
      // It has ended, or its group is out of sight.
    }
    return pids;
  }

  static OptionalLong readPeak(Path file) {
    try {
      return OptionalLong.of(Long.parseLong(Files.readString(file).trim()));
    } catch (IOException | NumberFormatException e) {
      // It has ended, or the kernel is too old.
      return OptionalLong.empty();
    }
  }
}
