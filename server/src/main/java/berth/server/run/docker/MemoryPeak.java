package berth.server.run.docker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/** Reads from the kernel how much memory a container has used at most. */
final class MemoryPeak {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");

  private MemoryPeak() {}

  /** The file with the number, for the container of a process. */
  static Optional<Path> fileOf(int pid) {
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

  static OptionalLong read(Path file) {
    try {
      return OptionalLong.of(Long.parseLong(Files.readString(file).trim()));
    } catch (IOException | NumberFormatException e) {
      // It has ended, or the kernel is too old.
      return OptionalLong.empty();
    }
  }
}
