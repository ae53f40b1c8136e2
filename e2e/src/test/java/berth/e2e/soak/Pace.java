package berth.e2e.soak;

import java.time.Duration;
import java.util.EnumSet;
import java.util.Random;
import java.util.Set;

/**
 * How much happens in a soak.
 *
 * @param supervised how many supervised clusters there are at a time
 * @param attached the same of clusters with a client
 * @param runs the same of runs with a client
 * @param detachedRuns the same of runs without one
 * @param leastTicks how many quarters of a second a program works
 * @param leastGap between two faults
 */
record Pace(
    int supervised,
    int attached,
    int runs,
    int detachedRuns,
    int leastTicks,
    int mostTicks,
    Duration leastGap,
    Duration mostGap,
    Set<Fault> faults) {
  /** For hours. */
  static final Pace USUAL =
      new Pace(
          3,
          1,
          1,
          1,
          20,
          100,
          Duration.ofSeconds(2),
          Duration.ofSeconds(8),
          EnumSet.allOf(Fault.class));

  /** For seconds: without what takes longer until all is well again. */
  static final Pace BRIEF =
      new Pace(
          1,
          1,
          1,
          1,
          4,
          8,
          Duration.ofMillis(500),
          Duration.ofMillis(1500),
          EnumSet.of(
              Fault.TASK_KILLED,
              Fault.SERVER_KILLED,
              Fault.SUPERVISOR_KILLED,
              Fault.REGISTRY_KILLED,
              Fault.RUN_CANCELLED));

  int ticks(Random random) {
    return leastTicks + random.nextInt(mostTicks - leastTicks + 1);
  }

  Duration gap(Random random) {
    long least = leastGap.toMillis();
    return Duration.ofMillis(least + random.nextInt((int) (mostGap.toMillis() - least + 1)));
  }
}
