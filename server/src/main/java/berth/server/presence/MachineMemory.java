package berth.server.presence;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The memory of this machine, as its kernel tells. For one thread. */
final class MachineMemory {
  private static final long MIB = 1 << 20;
  // Free memory changes all the time; only what may matter to somebody is news.
  private static final int PARTS = 32;

  private final Path meminfo;
  private long told;

  MachineMemory(Path meminfo) {
    this.meminfo = meminfo;
  }

  static MachineMemory ofThisMachine() {
    return new MachineMemory(Path.of("/proc/meminfo"));
  }

  /** All of it in bytes; 0 if unknown. */
  long total() {
    return read("MemTotal:");
  }

  /**
   * What programs could get now in bytes, whole MiB; 0 if unknown. Stays as it is while the truth
   * is within a 32nd of all memory from it.
   */
  long free() {
    long free = read("MemAvailable:");
    if (free == 0 || told == 0 || Math.abs(free - told) > total() / PARTS) {
      told = free / MIB * MIB;
    }
    return told;
  }

  private long read(String name) {
    try {
      for (String line : Files.readAllLines(meminfo)) {
        if (line.startsWith(name)) {
          return Long.parseLong(line.replaceAll("\\D", "")) << 10;
        }
      }
    } catch (IOException | NumberFormatException e) {
      // Unknown then.
    }
    return 0;
  }
}
