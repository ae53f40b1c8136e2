package berth.server.run;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;

/**
 * Notices that nobody has listened to an attached run for as long as it waits for its caller. Any
 * thread may call. Its lock is taken last: with it, only {@code over} and the timer are called.
 */
final class CallerWatch {
  private final Duration grace;
  private final RunTasks tasks;
  private final BooleanSupplier over;
  private final Runnable whenGone;
  private int holders;
  private Optional<Future<?>> timer = Optional.empty();

  /**
   * @param over whether a caller is not missed, or not any more; must not block
   * @param whenGone run without the lock
   */
  CallerWatch(Duration grace, RunTasks tasks, BooleanSupplier over, Runnable whenGone) {
    this.grace = grace;
    this.tasks = tasks;
    this.over = over;
    this.whenGone = whenGone;
  }

  /** Gives a caller the usual time to come, unless one is here. */
  synchronized void watch() {
    if (holders == 0 && timer.isEmpty() && !over.getAsBoolean()) {
      timer = Optional.of(tasks.timer(grace, this::elapsed));
    }
  }

  /** A caller listens. Run the result when it has gone. */
  synchronized Runnable hold() {
    holders++;
    cancel();
    return this::unhold;
  }

  private synchronized void unhold() {
    holders--;
    watch();
  }

  /** Until the next caller goes. */
  synchronized void cancel() {
    timer.ifPresent(waiting -> waiting.cancel(false));
    timer = Optional.empty();
  }

  private void elapsed() {
    synchronized (this) {
      if (holders > 0 || over.getAsBoolean()) {
        return;
      }
    }
    whenGone.run();
  }
}
