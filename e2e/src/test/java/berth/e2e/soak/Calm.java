package berth.e2e.soak;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The last part of a soak: nothing new begins, nothing is broken any more, and all that is under
 * way must come to its end by itself. Any thread may call.
 */
final class Calm {
  private static final Duration PATIENCE = Duration.ofMinutes(6);

  private final CountDownLatch begun = new CountDownLatch(1);
  private volatile long since;

  void begin() {
    since = System.nanoTime();
    begun.countDown();
  }

  boolean hasBegun() {
    return begun.getCount() == 0;
  }

  /** Whether all should have ended by now. */
  boolean overdue() {
    return hasBegun() && System.nanoTime() - since > PATIENCE.toNanos();
  }

  /** Does nothing for so long, or until it begins; returns whether it has. */
  boolean await(Duration time) throws InterruptedException {
    return begun.await(time.toMillis(), TimeUnit.MILLISECONDS);
  }
}
