package berth.server.run;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Whether anything can be run at present, looked at from time to time, so that nobody who asks has
 * to wait for an engine that hangs.
 */
final class RuntimeHealth {
  static final Duration INTERVAL = Duration.ofSeconds(5);
  private static final long NONE = 0;

  private final Runtime runtime;
  private final AtomicLong lookingSince = new AtomicLong(NONE);
  private volatile Optional<String> problem;

  RuntimeHealth(Runtime runtime) {
    this.runtime = runtime;
    Runtime.Info info = runtime.info();
    this.problem = info.usable() ? Optional.empty() : Optional.of(info.engine());
  }

  /** Looks, unless an earlier look has not come back. May take as long as the engine does. */
  void look() {
    // The lowest bit tells it from none.
    if (lookingSince.compareAndSet(NONE, System.nanoTime() | 1)) {
      try {
        problem = runtime.problem();
      } finally {
        lookingSince.set(NONE);
      }
    }
  }

  /** Why nothing can be run; empty if it can. */
  Optional<String> problem() {
    long since = lookingSince.get();
    return since != NONE && System.nanoTime() - since > INTERVAL.toNanos()
        ? Optional.of("the container engine does not answer")
        : problem;
  }
}
