package berth.e2e.bench;

import java.util.List;
import java.util.Locale;

/**
 * What both sides are to run.
 *
 * @param network as {@code docker run} calls it
 * @param gpus asked of Berth; Docker alone has none to give
 */
record Job(Net network, int gpus, List<String> command) {
  enum Net {
    HOST,
    NONE,
    BRIDGE;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** What came of it. */
  record Outcome(long nanos, long nanosToFirstByte, long bytes) {}
}
