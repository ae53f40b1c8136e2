package berth.e2e.bench;

import static berth.e2e.bench.Comparison.percentile;

import berth.e2e.bench.Job.Net;
import berth.rpc.Address;
import java.util.List;

/**
 * What it costs a run in a container that its records are flushed to disk: the same run, in turns,
 * on a server that flushes them and on one that does not. {@code scripts/bench.sh} runs it.
 */
final class FlushBench {
  private static final int WARM_UPS = 40;
  private static final int TIMES = 60;
  private static final double TARGET = 1.05;
  private static final Job NO_OP = new Job(Net.HOST, 1, List.of("true"));

  private FlushBench() {}

  /** Arguments: image, rounds, the address of the server that flushes, and of the other one. */
  public static void main(String[] args) {
    int times = TIMES * Integer.parseInt(args[1]);
    try (Jobs flushed = new BerthJobs(Address.parse(args[2], 0), args[0]);
        Jobs unflushed = new BerthJobs(Address.parse(args[3], 0), args[0])) {
      for (int i = 0; i < WARM_UPS; i++) {
        flushed.run(NO_OP);
        unflushed.run(NO_OP);
      }
      long[] with = new long[times];
      long[] without = new long[times];
      for (int i = 0; i < times; i++) {
        with[i] = flushed.run(NO_OP).nanos();
        without[i] = unflushed.run(NO_OP).nanos();
      }
      double ratio = percentile(50, with) / percentile(50, without);
      System.out.printf(
          "no-op run in a container, p50: %.1f ms flushed to disk, %.1f ms not flushed%n",
          percentile(50, with), percentile(50, without));
      System.out.printf(
          "target %s: flushing costs at most %s times the run (%s)%n",
          ratio <= TARGET ? "met" : "missed", TARGET, Comparison.number(ratio));
    }
  }
}
