package berth.server.run;

import java.util.concurrent.Semaphore;

/**
 * The memory for the content of requests while it is written to disk or read from there. Who finds
 * too little of it waits, first come first served. Any thread may call.
 */
final class ContentMemory {
  private static final int UNIT = 64 << 10;
  // The message, its fields, and what is made of them.
  private static final int COPIES = 4;

  private final int units;
  private final Semaphore free;

  ContentMemory(long bytes) {
    this.units = (int) (bytes / UNIT);
    this.free = new Semaphore(units, true);
  }

  /**
   * Waits for enough memory for a request of so many bytes, or for all of it.
   *
   * @return to be run when it is needed no more
   */
  Runnable take(long bytes) {
    int share = (int) Math.min(units, bytes * COPIES / UNIT + 1);
    free.acquireUninterruptibly(share);
    return () -> free.release(share);
  }
}
