package berth.server.run;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Whether anything can be run at present, looked at from time to time, so that nobody who asks has
 * to wait for an engine that hangs.
 */
final class RuntimeHealth {
  static final Duration INTERVAL = Duration.ofSeconds(5);
  private static final long NONE = 0;
  private static final long PATIENCE_MILLIS = 500;

  private final RunEngine runtime;
  private final AtomicLong lookingSince = new AtomicLong(NONE);
  private volatile Optional<String> problem;

  RuntimeHealth(RunEngine runtime) {
    this.runtime = runtime;
    RunEngine.Info info = runtime.info();
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

  /**
   * The same for one who is about to be refused: if there is a problem, somebody else has another
   * look, and is waited for a little.
   */
  Optional<String> problem(Executor others) {
    if (problem().isPresent()) {
      try {
        CompletableFuture.runAsync(this::look, others).get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException | ExecutionException e) {
        // The problem is as it was.
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    return problem();
  }

  /** Why nothing can be run; empty if it can. */
  Optional<String> problem() {
    long since = lookingSince.get();
    return since != NONE && System.nanoTime() - since > INTERVAL.toNanos()
        ? Optional.of("the container engine does not answer")
        : problem;
  }
}
