package berth.e2e.bench;

import static berth.e2e.bench.Comparison.percentile;

import berth.rpc.Address;
import java.nio.file.Path;

/**
 * Compares reservations through a {@code berthd} with those of the old algorithm. {@code
 * scripts/bench.sh} runs it.
 */
final class ReservationBench {
  private static final int WARM_UP_SECONDS = 25;
  private static final int GPUS = 4;
  private static final int HAND_OVERS = 200;
  // The old algorithm takes a second for each.
  private static final int SEED_HAND_OVERS = 30;

  private static final String HOLDING = "8 clients on 4 GPUs, hold 0 to 20 ms";
  private static final String HAND_OVER = "hand-over";
  private static final String P50 = ", p50";
  private static final String P95 = ", p95";

  private static final double THROUGHPUT_TARGET = 20;
  private static final double HAND_OVER_TARGET_MILLIS = 2;

  private final SeedSide seed;
  private final BerthSide berth;
  private final int seconds;
  private final Comparison comparison = new Comparison("seed");

  private ReservationBench(SeedSide seed, BerthSide berth, int seconds) {
    this.seed = seed;
    this.berth = berth;
    this.seconds = seconds;
  }

  /** Arguments: address of the server, its lock folder, program of the seed, seconds, rounds. */
  public static void main(String[] args) {
    ReservationBench bench =
        new ReservationBench(
            new SeedSide(Path.of(args[2]), Path.of(args[1]), GPUS),
            new BerthSide(Address.parse(args[0], 0), GPUS),
            Integer.parseInt(args[3]));
    bench.warmUp();
    int rounds = Integer.parseInt(args[4]);
    for (int round = 1; round <= rounds; round++) {
      System.err.printf("Round %d of %d%n", round, rounds);
      bench.measure();
    }
    bench.comparison.print();
    bench.judge();
  }

  // A daemon that has served for weeks is compiled; this one needs some ten thousand grants for
  // that.
  private void warmUp() {
    System.err.println("Warming up");
    berth.loop(8, 0, WARM_UP_SECONDS);
    berth.handOvers(HAND_OVERS);
  }

  // The sides take turns in each row, so that what else the machine does meets both.
  private void measure() {
    loop("1 client, no hold", 1, 0);
    loop("8 clients on 4 GPUs, no hold", 8, 0);
    loop(HOLDING, 8, 10);
    long[] ofSeed = seed.handOvers(SEED_HAND_OVERS);
    handOver(HAND_OVER, ofSeed, berth.handOvers(HAND_OVERS));
    try (SeedSide.Holder holder = seed.holder()) {
      handOver("  from a fasteners process", ofSeed, berth.handOversFrom(holder, HAND_OVERS));
    }
  }

  private void loop(String title, int clients, int holdMillis) {
    Throughput ofSeed = seed.loop(clients, holdMillis, seconds);
    Throughput ofBerth = berth.loop(clients, holdMillis, seconds);
    comparison.perSecond(title, ofSeed.all(), ofBerth.all());
    if (clients > 1) {
      comparison.perSecond(
          title.replaceFirst(".*, ", "  the unluckiest client, "), ofSeed.least(), ofBerth.least());
    }
  }

  private void handOver(String title, long[] ofSeed, long[] ofBerth) {
    comparison.millis(title + P50, percentile(50, ofSeed), percentile(50, ofBerth));
    comparison.millis(title + P95, percentile(95, ofSeed), percentile(95, ofBerth));
  }

  private void judge() {
    double handOver = comparison.berth(HAND_OVER + P50);
    double ratio = comparison.ratio(HOLDING);
    System.out.printf(
        "%ntarget %s: hand-over p50 under %.0f ms (%s)%n",
        handOver < HAND_OVER_TARGET_MILLIS ? "met" : "missed",
        HAND_OVER_TARGET_MILLIS,
        Comparison.number(handOver));
    System.out.printf(
        "target %s: %.0f times the seed's throughput with 8 clients that hold 4 GPUs (%s)%n",
        ratio >= THROUGHPUT_TARGET ? "met" : "missed", THROUGHPUT_TARGET, Comparison.number(ratio));
  }
}
