package berth.server.reservation;

import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * The line in which all requests of all of Berth's processes on a machine stand. The kernel keeps
 * it: ticket {@code n} is a lock on byte {@code n} of a shared file, so a process that dies leaves
 * the line by itself, and whose turn it is finds out by waiting for a lock on all bytes before its
 * own. Any thread may call.
 *
 * <p>The file's content is the next ticket's number, then two moments of the machine's monotonic
 * clock in nanoseconds: since when Berth has kept the system lock busy, and when it last released
 * it.
 */
final class TicketQueue {
  private static final int MUTEX_BYTE = 0;
  private static final long FIRST_TICKET = 64;
  private static final int NEXT_TICKET = 0;
  private static final int BUSY_SINCE = 8;
  private static final int RELEASED = 16;

  // fasteners looks again every 100 ms at the most. Those of its processes that wait for the system
  // lock find it free if
  // we leave it alone for a little longer than that, now and then.
  private static final long COURTESY_NANOS = Duration.ofMillis(120).toNanos();
  private static final long COURTESY_EVERY_NANOS = Duration.ofSeconds(5).toNanos();

  private final Path file;

  TicketQueue(LockFolder folder) {
    this.file = folder.queue();
  }

  /** Takes a place at the end of the line. */
  Ticket take() {
    while (true) {
      LockFile queue = LockFile.open(file);
      Ticket ticket = null;
      try {
        // Held for microseconds, by whoever else has it.
        queue.lock(new LockWait(), LibC.F_WRLCK, MUTEX_BYTE, 1);
        if (queue.isCurrent()) {
          long number = Math.max(FIRST_TICKET, queue.readLong(NEXT_TICKET));
          queue.writeLong(NEXT_TICKET, number + 1);
          queue.tryLock(LibC.F_WRLCK, number, 1);
          queue.unlock(MUTEX_BYTE, 1);
          ticket = new Ticket(queue, number);
          return ticket;
        }
      } finally {
        if (ticket == null) {
          queue.close();
        }
      }
    }
  }

  /** A place in the line, kept until it is closed. */
  final class Ticket implements AutoCloseable {
    private final LockFile queue;
    private final long number;
    private boolean closed;

    private Ticket(LockFile queue, long number) {
      this.queue = queue;
      this.number = number;
    }

    /** Waits until nobody is before us. False if cancelled before that. */
    boolean awaitTurn(LockWait wait) {
      long length = number - FIRST_TICKET;
      if (length == 0) {
        return true;
      }
      if (!queue.lock(wait, LibC.F_RDLCK, FIRST_TICKET, length)) {
        return false;
      }
      queue.unlock(FIRST_TICKET, length);
      return true;
    }

    /** How many are before us. */
    synchronized int ahead() {
      return closed ? 0 : count(FIRST_TICKET, number);
    }

    private int count(long from, long to) {
      if (from >= to) {
        return 0;
      }
      LockFile.Foreign other = queue.foreign(from, to - from);
      if (other == null) {
        return 0;
      }
      // A whole-range lock is somebody who just found that it is their turn.
      long start = Math.max(from, other.start());
      long end = other.length() == 0 ? to : Math.min(to, other.start() + other.length());
      int self = other.length() == 1 ? 1 : 0;
      return self + count(from, start) + count(end, to);
    }

    /**
     * Pauses if Berth has kept the system lock busy for long; to be called by whose turn it is,
     * before taking it.
     */
    void giveWayToOthers() throws InterruptedException {
      long now = System.nanoTime();
      long sinceRelease = now - queue.readLong(RELEASED);
      boolean idle = sinceRelease < 0 || sinceRelease > COURTESY_NANOS;
      if (idle) {
        queue.writeLong(BUSY_SINCE, now);
      } else if (now - queue.readLong(BUSY_SINCE) > COURTESY_EVERY_NANOS) {
        TimeUnit.NANOSECONDS.sleep(COURTESY_NANOS - sinceRelease);
        queue.writeLong(BUSY_SINCE, System.nanoTime());
      }
    }

    /** Notes that the system lock was released just now. */
    void systemLockReleased() {
      queue.writeLong(RELEASED, System.nanoTime());
    }

    @Override
    public synchronized void close() {
      closed = true;
      queue.close();
    }
  }
}
