package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.RunRecord.Phase;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits for this server to be able to go on with a run: for room on its disk, its container engine,
 * threads. The run's thread waits; any may ask why, or wake it. Its lock is taken last.
 */
final class ServerWait {
  private static final Logger log = LoggerFactory.getLogger(ServerWait.class);
  private static final Duration LOOK_AT_DISK = Duration.ofSeconds(1);

  /** What can be tried again. */
  interface Step {
    void take() throws InterruptedException;
  }

  private final RunContext context;
  private final RunFolder folder;
  private final SavedRecord saved;
  private final Runnable changed;
  private String reason = "";

  /**
   * @param changed run without the lock when there is a new reason
   */
  ServerWait(RunContext context, RunFolder folder, SavedRecord saved, Runnable changed) {
    this.context = context;
    this.folder = folder;
    this.saved = saved;
    this.changed = changed;
  }

  /** What the run waits for; empty if it does not. */
  synchronized String reason() {
    return reason;
  }

  /** Returns whether that is new. */
  boolean because(String why) {
    synchronized (this) {
      if (reason.equals(why)) {
        return false;
      }
      reason = why;
    }
    changed.run();
    return true;
  }

  /** The run is ordered to stop, which its record shows by now. */
  synchronized void wake() {
    notifyAll();
  }

  /** Takes a step until it does not fail because of the server. */
  void untilDone(ServerTrouble trouble, Step step) throws InterruptedException {
    while (true) {
      try {
        step.take();
        return;
      } catch (RuntimeException | OutOfMemoryError e) {
        waitOut(trouble, e, false);
      }
    }
  }

  ServerTrouble troubleOf(RequestedRun spec) {
    // Without a queue there is no limit to the time in it.
    return new ServerTrouble(
        spec.needsReservation() ? spec.waitAtMost() : Optional.empty(),
        () -> !context.runtime().info().usable() || context.disk().isShort(),
        System::nanoTime);
  }

  /**
   * Waits a while after a failure that was the server's; passes on any other. What may run is
   * waited for without limit: to give it up would be to kill it.
   *
   * @param fetching whether it was the image that could not be fetched
   */
  void waitOut(ServerTrouble trouble, Throwable failure, boolean fetching)
      throws InterruptedException {
    context.leaveIfClosed();
    BerthException why = ServerTrouble.of(failure).orElseThrow(() -> unchecked(failure));
    if (saved.get().phase().isAtLeast(Phase.RUNNING) || folder.started()) {
      log.warn("{} is running; retrying to attach: {}", saved.get().id(), why.getMessage());
      Thread.sleep(trouble.pause().toMillis());
      return;
    }
    checkStopped();
    if (trouble.lastsTooLong(fetching)) {
      throw fetching ? new BerthException(Reason.NOT_FOUND, why.getMessage(), why) : why;
    }
    if (because(why.getMessage())) {
      log.warn("{} waits for the server: {}", saved.get().id(), why.getMessage());
    }
    pause(trouble.pause());
    checkStopped();
  }

  private static RuntimeException unchecked(Throwable failure) {
    return failure instanceof RuntimeException e ? e : new CompletionException(failure);
  }

  /**
   * Waits for room on the disk, unless the program may run by now.
   *
   * @throws BerthException CANCELLED if the run is stopped meanwhile
   */
  void awaitRoom() throws InterruptedException {
    while (!saved.get().phase().isAtLeast(Phase.LAUNCHING) && context.disk().isShort()) {
      if (because("the server's disk is full")) {
        log.warn("{} waits for free space on the disk", saved.get().id());
      }
      checkStopped();
      pause(LOOK_AT_DISK);
      checkStopped();
    }
  }

  private void checkStopped() {
    if (saved.get().stop().isPresent()) {
      throw RunOutcome.stopped(saved.get());
    }
  }

  // No longer than until it is stopped.
  private synchronized void pause(Duration atMost) throws InterruptedException {
    long end = System.nanoTime() + atMost.toNanos();
    for (long left = atMost.toNanos();
        left > 0 && saved.get().stop().isEmpty();
        left = end - System.nanoTime()) {
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
  }
}
