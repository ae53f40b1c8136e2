package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Does what must not be forgotten: a task that fails, or for which there is no thread, is done
 * again every second until it succeeds or the process ends. So a task must be one that can be done
 * twice. Any thread may call.
 */
public final class Retries implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Retries.class);
  private static final long AGAIN_MILLIS = 1000;

  private final ExecutorService threads;
  private final ScheduledThreadPoolExecutor timer;

  Retries(ExecutorService threads) {
    this.threads = threads;
    this.timer = new ScheduledThreadPoolExecutor(1, DaemonThreads.named("reservation-retries"));
    // There may be no thread to be had when it is needed.
    timer.prestartAllCoreThreads();
  }

  /** Does it in the thread that calls; in another one if it has to be done again. */
  public void now(Runnable work) {
    new Task(work).run();
  }

  /** Does it soon, in a thread of its own. */
  public void later(Runnable work) {
    new Task(work).start();
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }

  private final class Task implements Runnable {
    private final Runnable work;
    private String failure = "";

    Task(Runnable work) {
      this.work = work;
    }

    @Override
    public void run() {
      try {
        work.run();
      } catch (RuntimeException | Error e) {
        again(e);
      }
    }

    void start() {
      try {
        threads.execute(this);
      } catch (RejectedExecutionException e) {
        // The process ends.
      } catch (RuntimeException | Error e) {
        again(e);
      }
    }

    private void again(Throwable e) {
      // Once, not every second.
      if (!e.toString().equals(failure)) {
        failure = e.toString();
        if (e instanceof BerthException) {
          log.warn("{}; retrying", e.getMessage());
        } else {
          log.error("unexpected failure of a reservation; retrying", e);
        }
      }
      try {
        timer.schedule(this::start, AGAIN_MILLIS, TimeUnit.MILLISECONDS);
      } catch (RejectedExecutionException closed) {
        // The process ends.
      }
    }
  }
}
