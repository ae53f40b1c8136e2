package berth.server.run;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is done for one run beside its own thread. Never in the thread of the timers, which all runs
 * need: the disk or the engine may take its time. Any thread may call, with any lock; tasks are run
 * without one.
 */
final class RunTasks {
  private static final Logger log = LoggerFactory.getLogger(RunTasks.class);
  private static final Duration RETRY = Duration.ofSeconds(1);
  // A task may take a twentieth of the time, but is never put off for longer than this.
  private static final Duration LONGEST_PAUSE = Duration.ofMinutes(2);
  private static final int SELDOM = 20;

  private final RunContext context;
  private final String runId;
  private final List<Future<?>> timers = new ArrayList<>();

  RunTasks(RunContext context, String runId) {
    this.context = context;
    this.runId = runId;
  }

  void soon(Runnable task) {
    try {
      context
          .threads()
          .execute(
              () -> {
                try {
                  task.run();
                } catch (RuntimeException e) {
                  log.error("{}: unexpected failure", runId, e);
                }
              });
    } catch (RejectedExecutionException e) {
      // The daemon stops, and the next one goes on.
    } catch (Error e) {
      log.error("{}: cannot start a thread; retrying", runId, e);
      retry(() -> soon(task));
    }
  }

  /** Runs {@code task} after a while, in the thread of the timers. */
  void retry(Runnable task) {
    try {
      context.timer().schedule(task, RETRY.toMillis(), TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException e) {
      // The daemon stops, and the next one goes on.
    }
  }

  /** Until {@link #cancelTimers}. */
  synchronized void after(Duration delay, Runnable task) {
    timers.add(timer(delay, task));
  }

  /** As {@link #after}, but the caller cancels it. */
  Future<?> timer(Duration delay, Runnable task) {
    return context.timer().schedule(() -> soon(task), delay.toNanos(), TimeUnit.NANOSECONDS);
  }

  synchronized void cancelTimers() {
    timers.forEach(timer -> timer.cancel(false));
    timers.clear();
  }

  /**
   * Does something now and then until the result is run; less often if it takes long, and never
   * twice at once.
   */
  Runnable repeat(Duration pause, Runnable task) {
    AtomicBoolean over = new AtomicBoolean();
    soon(() -> onceMore(pause, task, over));
    return () -> over.set(true);
  }

  private void onceMore(Duration pause, Runnable task, AtomicBoolean over) {
    if (over.get() || context.closed()) {
      return;
    }
    long began = System.nanoTime();
    try {
      task.run();
    } catch (RuntimeException e) {
      log.warn("{}: {}", runId, e.toString());
    }
    Duration next = pauseAfter(pause, Duration.ofNanos(System.nanoTime() - began));
    try {
      timer(next, () -> onceMore(pause, task, over));
    } catch (RejectedExecutionException e) {
      // The daemon stops.
    }
  }

  /** How long to wait until something is done again. */
  static Duration pauseAfter(Duration usual, Duration took) {
    Duration seldom = took.multipliedBy(SELDOM);
    // A program decides how many files there are to be looked at.
    Duration longest = seldom.compareTo(LONGEST_PAUSE) < 0 ? seldom : LONGEST_PAUSE;
    return usual.compareTo(longest) > 0 ? usual : longest;
  }
}
