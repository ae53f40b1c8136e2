package berth.e2e.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** What a process has in memory, in MB. */
record Memory(double resident, double anonymous) {
  static Memory of(long pid) {
    try {
      String status = Files.readString(Path.of("/proc/" + pid + "/status"));
      return new Memory(megabytes(status, "VmRSS:"), megabytes(status, "RssAnon:"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static double megabytes(String status, String field) {
    return Arrays.stream(status.split("\n"))
            .filter(line -> line.startsWith(field))
            .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
            .sum()
        / 1000.0;
  }

  @Override
  public String toString() {
    return "%s MB (RssAnon %s)"
        .formatted(Comparison.number(resident), Comparison.number(anonymous));
  }
}
