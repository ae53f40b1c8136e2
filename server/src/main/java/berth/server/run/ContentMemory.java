package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The memory for the content of requests while it is written to disk or read from there. Who finds
 * too little of it waits, first come first served. Nobody should do anything with it that takes
 * longer than the disk takes for the content. Any thread may call.
 */
final class ContentMemory {
  private static final int UNIT = 64 << 10;
  // The message, its fields, and what is made of them.
  private static final int COPIES = 4;

  private final int units;
  private final Semaphore free;
  private final Semaphore callers;
  private final Duration patience;

  /**
   * @param callers how many may wait in {@link #takeSoon} at the same time: well below the number
   *     of threads that serve calls
   * @param patience how long each of these waits
   */
  ContentMemory(long bytes, int callers, Duration patience) {
    this.units = (int) (bytes / UNIT);
    this.free = new Semaphore(units, true);
    this.callers = new Semaphore(callers);
    this.patience = patience;
  }

  /**
   * Waits for enough memory for a request of so many bytes, or for all of it.
   *
   * @return to be run when it is needed no more
   */
  Runnable take(long bytes) {
    int share = share(bytes);
    free.acquireUninterruptibly(share);
    return () -> free.release(share);
  }

  /**
   * The same for those whose thread others need too.
   *
   * @throws BerthException UNAVAILABLE if it takes too long, or too many wait already
   */
  Runnable takeSoon(long bytes) {
    int share = share(bytes);
    if (!callers.tryAcquire()) {
      throw busy();
    }
    try {
      if (!free.tryAcquire(share, patience.toNanos(), TimeUnit.NANOSECONDS)) {
        throw busy();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.UNAVAILABLE, "this server is stopping", e);
    } finally {
      callers.release();
    }
    return () -> free.release(share);
  }

  private int share(long bytes) {
    return (int) Math.min(units, bytes * COPIES / UNIT + 1);
  }

  private static BerthException busy() {
    return new BerthException(
        Reason.UNAVAILABLE,
        "the code of other runs fills the memory of this server; try again, or send the code as a"
            + " bundle");
  }
}
