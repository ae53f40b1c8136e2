package berth.client;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The thread of one piece of work. Others may interrupt it, exactly while it does that work, and
 * wait for its end.
 */
final class InterruptibleCall {
  private static final Duration ENDING = Duration.ofSeconds(5);

  private final CountDownLatch over = new CountDownLatch(1);
  private Thread thread;
  private boolean interrupted;

  /** Does the work, in the calling thread. To be called once. */
  void run(Runnable work) {
    synchronized (this) {
      thread = Thread.currentThread();
      if (interrupted) {
        thread.interrupt();
      }
    }
    try {
      work.run();
    } finally {
      synchronized (this) {
        thread = null;
        // What this thread does next is not meant.
        Thread.interrupted();
      }
      over.countDown();
    }
  }

  /** Interrupts the work; if it has not begun, as soon as it does. */
  synchronized void interrupt() {
    interrupted = true;
    if (thread != null) {
      thread.interrupt();
    }
  }

  /** Interrupts the work, and returns when it has ended; not later than after some seconds. */
  void end() {
    interrupt();
    await(ENDING);
  }

  /** Whether the work has ended, or ends within this time. Whoever does it need not wait for it. */
  boolean await(Duration time) {
    synchronized (this) {
      if (thread == Thread.currentThread()) {
        return true;
      }
    }
    try {
      return over.await(time.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
