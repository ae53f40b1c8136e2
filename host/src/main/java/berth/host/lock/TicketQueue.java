package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.LastErrorException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * The line in which all requests of all of Berth's processes on a machine stand. The kernel keeps
 * it: ticket {@code n} is a lock on byte {@code n} of a shared file, so a process that dies leaves
 * the line by itself, and whose turn it is finds out by waiting for a lock on all bytes before its
 * own. Any thread may call.
 *
 * <p>The tickets of a process are locks of one open file, which do not exclude each other: a
 * process serves its own requests in the order of their tickets.
 *
 * <p>The file's content is the next ticket's number, then two moments of the machine's monotonic
 * clock in nanoseconds: since when Berth has kept the system lock busy, and when it last released
 * it.
 */
public final class TicketQueue {
  private static final int MUTEX_BYTE = 0;
  private static final long FIRST_TICKET = 64;
  private static final long LAST_TICKET = Long.MAX_VALUE / 2;
  private static final int NEXT_TICKET = 0;

  // Everybody may lock any part of this file, and replace it in some folders. Requests are counted
  // and tickets taken while others wait for that, so neither goes on for as long as somebody likes.
  private static final int MOST_JUMPS = 16;
  private static final int MOST_LOOKS = 512;
  private static final int BUSY_SINCE = 8;
  private static final int RELEASED = 16;

  // fasteners looks again every 100 ms at the most. Those of its processes that wait for the system
  // lock find it free if
  // we leave it alone for a little longer than that, now and then.
  private static final long COURTESY_NANOS = Duration.ofMillis(120).toNanos();
  private static final long COURTESY_EVERY_NANOS = Duration.ofSeconds(5).toNanos();

  /** The open file of tickets that were taken while it stood under its name. */
  private static final class OpenQueue {
    private final LockFile file;
    private int tickets;

    OpenQueue(LockFile file) {
      this.file = file;
    }
  }

  private final Path file;
  private Optional<OpenQueue> newest = Optional.empty();

  TicketQueue(LockFolder folder) {
    this.file = folder.queue();
  }

  public Path file() {
    return file;
  }

  /** Takes a place at the end of the line, unless somebody else is just doing so. */
  public Optional<Ticket> tryTake() {
    return take(mutex -> mutex.tryLock(LibC.F_WRLCK, MUTEX_BYTE, 1));
  }

  /**
   * Takes a place at the end of the line. Others need microseconds for that, but whoever is stopped
   * meanwhile, or means harm, may take as long as it likes. Empty if cancelled before.
   */
  public Optional<Ticket> take(LockWait wait) {
    return take(mutex -> mutex.lock(wait, LibC.F_WRLCK, MUTEX_BYTE, 1));
  }

  private Optional<Ticket> take(Predicate<LockFile> lock) {
    for (int tried = 0; tried < LockFolder.MOST_TRIES; tried++) {
      // A descriptor of its own, which excludes the other threads of this process too.
      try (LockFile mutex = LockFile.open(file)) {
        if (!lock.test(mutex)) {
          return Optional.empty();
        }
        if (mutex.isCurrent()) {
          return Optional.of(takeNext(mutex));
        }
      }
    }
    throw LockFolder.replacedAgainAndAgain(file);
  }

  private synchronized Ticket takeNext(LockFile mutex) {
    OpenQueue queue =
        newest
            .filter(open -> open.file.isCurrent())
            .orElseGet(() -> new OpenQueue(LockFile.open(file)));
    try {
      long number = lockNext(queue.file, mutex);
      queue.tickets++;
      newest = Optional.of(queue);
      return new Ticket(queue, number);
    } catch (RuntimeException | Error e) {
      if (queue.tickets == 0) {
        queue.file.close();
      }
      throw e;
    }
  }

  // Behind all that others have locked without being in the line.
  private long lockNext(LockFile queue, LockFile mutex) {
    long number = valid(mutex.readLong(NEXT_TICKET));
    for (int jumped = 0; jumped < MOST_JUMPS; jumped++) {
      if (queue.tryLock(LibC.F_WRLCK, number, 1)) {
        try {
          mutex.writeLong(NEXT_TICKET, number + 1);
        } catch (RuntimeException | Error e) {
          queue.unlock(number, 1);
          throw e;
        }
        return number;
      }
      LockFile.Foreign other = queue.foreign(number, 1);
      if (other != null && other.length() == 0) {
        throw new BerthException(
            Reason.UNAVAILABLE, "another process keeps " + file + " locked" + by(other));
      }
      number = other == null ? number : valid(other.start() + other.length());
    }
    // Whoever tries next goes on from here.
    mutex.writeLong(NEXT_TICKET, number);
    throw new BerthException(
        Reason.UNAVAILABLE, "other processes keep many parts of " + file + " locked");
  }

  private static String by(LockFile.Foreign other) {
    return other.pid().isPresent() ? ": process " + other.pid().getAsInt() : "";
  }

  // Everybody can write into this file.
  private static long valid(long number) {
    return number < FIRST_TICKET || number > LAST_TICKET ? FIRST_TICKET : number;
  }

  /** A place in the line, kept until it is closed. */
  public final class Ticket implements AutoCloseable {
    private final OpenQueue open;
    private final LockFile queue;
    private final long number;
    private boolean closed;

    private Ticket(OpenQueue open, long number) {
      this.open = open;
      this.queue = open.file;
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

    /**
     * How many requests of other processes are before us; of very many, at least so many. Whoever
     * cannot find out counts none.
     */
    int ahead() {
      synchronized (TicketQueue.this) {
        try {
          return closed ? 0 : (int) Math.min(Integer.MAX_VALUE, count());
        } catch (LastErrorException e) {
          return 0;
        }
      }
    }

    private long count() {
      long count = 0;
      Deque<LockFile.Range> toLookAt = new ArrayDeque<>();
      toLookAt.add(new LockFile.Range(FIRST_TICKET, number - FIRST_TICKET));
      for (int looks = 0; looks < MOST_LOOKS && !toLookAt.isEmpty(); looks++) {
        LockFile.Range range = toLookAt.remove();
        LockFile.Foreign other =
            range.length() > 0 ? queue.foreign(range.start(), range.length()) : null;
        if (other != null) {
          long end = range.start() + range.length();
          long from = Math.max(range.start(), other.start());
          long to = other.length() == 0 ? end : Math.min(end, other.start() + other.length());
          // A shared lock is that of somebody who just found that it is their turn; an exclusive
          // one may be several tickets of one process.
          count += other.exclusive() ? to - from : 0;
          toLookAt.addAll(
              List.of(
                  new LockFile.Range(range.start(), from - range.start()),
                  new LockFile.Range(to, end - to)));
        }
      }
      return count;
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
        note(BUSY_SINCE);
      } else if (now - queue.readLong(BUSY_SINCE) > COURTESY_EVERY_NANOS) {
        TimeUnit.NANOSECONDS.sleep(COURTESY_NANOS - sinceRelease);
        note(BUSY_SINCE);
      }
    }

    /** Notes that the system lock was released just now. */
    void systemLockReleased() {
      note(RELEASED);
    }

    private void note(int moment) {
      try {
        queue.writeLong(moment, System.nanoTime());
      } catch (BerthException e) {
        // It is a courtesy, and no reason to fail when the disk is full.
      }
    }

    /** Leaves the line. */
    @Override
    public void close() {
      synchronized (TicketQueue.this) {
        if (closed) {
          return;
        }
        closed = true;
        queue.unlock(number, 1);
        if (--open.tickets == 0) {
          queue.close();
          newest = newest.filter(other -> other != open);
        }
      }
    }
  }
}
