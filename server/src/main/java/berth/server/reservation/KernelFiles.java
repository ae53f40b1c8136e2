package berth.server.reservation;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

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

  static String firstLine(Path path) throws IOException {
    try (BufferedReader reader = Files.newBufferedReader(path)) {
      String line = reader.readLine();
      return line == null ? "" : line.trim();
    }
  }
}
