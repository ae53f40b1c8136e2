package berth.server.reservation;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      // The second field is a name in brackets, in which anything may stand.
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      return fields[0].equals("Z")
          ? OptionalLong.empty()
          : OptionalLong.of(Long.parseLong(fields[19]));
    } catch (IOException e) {
      return OptionalLong.empty();
    }
  }

  static String firstLine(Path path) throws IOException {
    try (BufferedReader reader = Files.newBufferedReader(path)) {
      String line = reader.readLine();
      return line == null ? "" : line.trim();
    }
  }
}
