package berth.server.run;

import berth.rpc.BerthException;
import berth.server.reservation.RunHold;
import berth.server.run.RunEngine.Pull;
import berth.server.run.RunEngine.Running;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The start of one run's program: brings its code and image, creates what is to be started, and
 * starts it once, however often it is tried. The run's thread calls {@link #start}; any may ask how
 * far it is. Its lock is taken last; nothing that waits is called with it.
 */
final class ProgramStart {
  private static final Logger log = LoggerFactory.getLogger(ProgramStart.class);

  private final RunContext context;
  private final RunFolder folder;
  private final SavedRecord saved;
  private final ServerWait waiting;
  private final RunContent content;
  private final LiveOutput output;
  private final Runnable changed;
  // What was made of the code that is in its folder, while it is not started.
  private Optional<Launch> brought = Optional.empty();
  private Optional<Pull> pull = Optional.empty();
  private Optional<Running> starting = Optional.empty();
  private Optional<Started> seenToRun = Optional.empty();

  /**
   * @param changed run without the lock when there is something new
   */
  ProgramStart(
      RunContext context,
      RunFolder folder,
      SavedRecord saved,
      ServerWait waiting,
      RunContent content,
      LiveOutput output,
      Runnable changed) {
    this.context = context;
    this.folder = folder;
    this.saved = saved;
    this.waiting = waiting;
    this.content = content;
    this.output = output;
    this.changed = changed;
  }

  private RunRecord record() {
    return saved.get();
  }

  /** The newest progress, while an image is fetched. */
  synchronized Optional<Pull> pull() {
    return pull;
  }

  /** The start, if the program has printed something before the engine told of it. */
  synchronized Optional<Started> seenToRun() {
    return seenToRun;
  }

  /**
   * Returns when the program is started, now or by an earlier daemon. A full disk is no fault of
   * the run: it goes on when there is room again. Nor is it started on one, where neither its
   * output nor its end could be written down.
   *
   * @throws BerthException if it cannot be started, or was stopped
   */
  Started start(RequestedRun spec, Optional<RunHold> hold) throws InterruptedException {
    ServerTrouble trouble = waiting.troubleOf(spec);
    while (true) {
      waiting.awaitRoom();
      try {
        Launch launch = makeReady(spec, hold);
        Running running = context.runtime().start(launch);
        waiting.because("");
        brought = Optional.empty();
        running.pid().ifPresent(pid -> tellKeeper(hold, pid));
        return started(running, launch.limits().time());
      } catch (RuntimeException | OutOfMemoryError e) {
        waiting.waitOut(trouble, e, fetchingFailed());
      }
    }
  }

  /** Whether its image was being fetched, which is over. */
  private synchronized boolean fetchingFailed() {
    boolean fetching = pull.isPresent();
    pull = Optional.empty();
    return fetching;
  }

  private Launch makeReady(RequestedRun spec, Optional<RunHold> hold) throws InterruptedException {
    if (!output.isOpen() && record().phase().isAtLeast(Phase.LAUNCHING)) {
      output.open();
    }
    Launch launch;
    if (brought.isPresent()) {
      launch = brought.get();
    } else if (record().phase().isAtLeast(Phase.LAUNCHING)) {
      launch = content.plan(hold.map(RunHold::reservation));
    } else {
      launch = content.bring(spec.code(), hold.map(RunHold::reservation));
      output.open();
      brought = Optional.of(launch);
    }
    // Twice only if the engine failed, or an earlier daemon was killed before it could start what
    // it made.
    if (!folder.started()) {
      // Neither needs the other, and both take their time.
      CompletableFuture<Void> spooling =
          CompletableFuture.runAsync(output::start, context.threads());
      RunEngine.Created created;
      try {
        created = context.runtime().create(launch, new Fetching());
      } finally {
        await(spooling);
      }
      if (record().stop().isPresent() && !record().phase().isAtLeast(Phase.LAUNCHING)) {
        throw RunOutcome.stopped(record());
      }
      synchronized (this) {
        pull = Optional.empty();
        starting = created.running();
      }
      // What was brought and made may have filled the disk; the record would fit all the same.
      waiting.awaitRoom();
      // On disk before anything of the program can start.
      saved.write(this::launching);
      hold.ifPresent(held -> held.usedBy(created.mark()));
    }
    return launch;
  }

  private RunRecord launching(RunRecord now) {
    if (now.phase().isAtLeast(Phase.LAUNCHING)) {
      return now;
    }
    if (now.stop().isPresent()) {
      throw RunOutcome.stopped(now);
    }
    return now.at(Phase.LAUNCHING);
  }

  private static <T> T await(CompletableFuture<T> future) throws InterruptedException {
    try {
      return future.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BerthException expected) {
        throw expected;
      }
      throw new CompletionException(e.getCause());
    }
  }

  // The mark and the older keeper, which stays, do until the run ends.
  void tellKeeper(Optional<RunHold> hold, int pid) {
    try {
      hold.ifPresent(held -> held.livesBy(pid));
    } catch (BerthException e) {
      log.warn(
          "{}: cannot pass its process to the keeper of its GPUs: {}",
          record().id(),
          e.getMessage());
    }
  }

  /** Its output has so many bytes: the engine says late that a program runs, and this proves it. */
  synchronized void printed(long bytes) {
    if (seenToRun.isEmpty() && record().phase() == Phase.LAUNCHING && bytes > 0) {
      seenToRun = starting.map(running -> started(running, Optional.empty()));
    }
  }

  private Started started(Running running, Optional<Duration> timeLimit) {
    // The program may have ended by now, and its file may tell any time.
    Instant now = Instant.now();
    Instant at =
        folder
            .startedAt()
            .filter(time -> time.isAfter(record().accepted()) && time.isBefore(now))
            .orElse(now);
    return new Started(
        running.containerId(),
        at,
        System.nanoTime() - Duration.between(at, now).toNanos(),
        running.pid(),
        running.isolated(),
        running.notEnforced(),
        timeLimit);
  }

  private final class Fetching implements RunEngine.Progress {
    @Override
    public void pulling(Pull progress) {
      synchronized (ProgramStart.this) {
        pull = Optional.of(progress);
      }
      changed.run();
    }

    @Override
    public boolean wanted() {
      return record().stop().isEmpty();
    }
  }
}
