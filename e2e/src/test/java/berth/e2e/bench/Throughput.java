package berth.e2e.bench;

import java.util.Arrays;

/** Reservations per second, of all clients together and of the one that got the fewest. */
record Throughput(double all, double least) {
  static Throughput of(long[] counts, int seconds) {
    return new Throughput(
        (double) Arrays.stream(counts).sum() / seconds,
        (double) Arrays.stream(counts).min().orElseThrow() / seconds);
  }
}
