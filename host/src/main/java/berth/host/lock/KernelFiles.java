package berth.host.lock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/** Reads files of the kernel's, which must be read in one go. */
public final class KernelFiles {
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  private KernelFiles() {}

  /** What tells this boot of the machine from others: no process and no clock outlives one. */
  public static String bootId() {
    try {
      return firstLine(BOOT_ID);
    } catch (IOException e) {
      return "unknown";
    }
  }

  /** Whether this process is root, whatever that user is called. */
  public static boolean isRoot() {
    try {
      // The folder, not a file in it: those are root's in a process that must not be looked into.
      return (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid") == 0;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * When a process started, in the kernel's ticks since the boot: that tells it from a later one of
   * the same id. Empty if there is no such process, or only what its parent has not reaped of it.
   */
  public static OptionalLong startOf(int pid) {
    return stat(pid).filter(fields -> !fields[0].equals("Z")).stream()
        .mapToLong(fields -> Long.parseLong(fields[19]))
        .findFirst();
  }

  /** Whether a process is the first of its session. */
  public static boolean leadsSession(int pid) {
    return stat(pid).map(fields -> fields[3].equals(String.valueOf(pid))).orElse(false);
  }

  // What follows the name. Empty if there is no such process.
  private static Optional<String[]> stat(int pid) {
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      // The second field is a name in brackets, in which anything may stand.
      return Optional.of(stat.substring(stat.lastIndexOf(')') + 2).split(" "));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  static String firstLine(Path path) throws IOException {
    try (BufferedReader reader = Files.newBufferedReader(path)) {
      String line = reader.readLine();
      return line == null ? "" : line.trim();
    }
  }
}
