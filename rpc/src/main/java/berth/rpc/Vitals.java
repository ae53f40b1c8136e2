package berth.rpc;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads without which a daemon only seems to live. What one of them throws is logged, and its
 * work goes on; while it fails, and should it ever end, {@link #problem} says so and health with
 * it. Any thread may call.
 */
public final class Vitals {
  private static final Logger log = LoggerFactory.getLogger(Vitals.class);
  private static final Duration PAUSE = Duration.ofSeconds(1);

  /** A piece of work that is done again and again. */
  public interface Work {
    /**
     * Does it once.
     *
     * @return false if there is nothing left to do, ever
     * @throws InterruptedException if the thread is to end
     */
    boolean doOnce() throws InterruptedException;
  }

  private final List<Vital> threads = new CopyOnWriteArrayList<>();

  /** Starts a thread that works until there is nothing left to do or it is interrupted. */
  public Thread start(String name, Work work) {
    Vital vital = new Vital(name, work);
    vital.thread.start();
    threads.add(vital);
    return vital.thread;
  }

  /** What is wrong with one of the threads; empty while all of them do their work. */
  public Optional<String> problem() {
    return threads.stream().flatMap(vital -> vital.problem().stream()).findFirst();
  }

  /** How many of the threads fail or have ended. */
  public long failing() {
    return threads.stream().filter(vital -> vital.problem().isPresent()).count();
  }

  private static final class Vital {
    private final Thread thread;
    private final Work work;
    private volatile Throwable failure;
    private volatile boolean finished;

    Vital(String name, Work work) {
      this.work = work;
      thread = DaemonThreads.unstarted(this::run, name);
    }

    private void run() {
      try {
        while (workedOn()) {}
        finished = true;
      } catch (InterruptedException e) {
        finished = true;
      }
    }

    // Errors too: after a stack overflow or for want of a thread, the next piece may well succeed.
    // Out of memory the JVM exits.
    private boolean workedOn() throws InterruptedException {
      try {
        boolean more = work.doOnce();
        failure = null;
        return more;
      } catch (InterruptedException e) {
        throw e;
      } catch (Throwable e) {
        log.error("{} failed; retrying", thread.getName(), e);
        failure = e;
        Thread.sleep(PAUSE.toMillis());
        return true;
      }
    }

    Optional<String> problem() {
      if (finished) {
        return Optional.empty();
      }
      if (!thread.isAlive()) {
        return Optional.of("the thread " + thread.getName() + " has ended");
      }
      return Optional.ofNullable(failure)
          .map(e -> "the thread " + thread.getName() + " fails: " + e);
    }
  }
}
