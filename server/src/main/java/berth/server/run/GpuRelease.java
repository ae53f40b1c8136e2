package berth.server.run;

import berth.server.reservation.RunHold;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes what is left of a run and frees its GPUs, both for as long as it takes. The run's thread
 * calls; any may ask why it takes so long. Without a lock.
 */
final class GpuRelease {
  private static final Logger log = LoggerFactory.getLogger(GpuRelease.class);
  private static final Duration REMOVE_AGAIN = Duration.ofSeconds(1);
  private static final Duration LOOK_AGAIN = Duration.ofMillis(200);

  private final RunContext context;
  private final String runId;
  private final Runnable changed;
  private volatile String heldBack = "";

  /**
   * @param changed run when there is a new reason why the GPUs are not free
   */
  GpuRelease(RunContext context, String runId, Runnable changed) {
    this.context = context;
    this.runId = runId;
    this.changed = changed;
  }

  /** Why the GPUs are not free; empty if they are, or it is not known yet. */
  String heldBack() {
    return heldBack;
  }

  /** Nothing is free before what ran is certainly gone. */
  void remove() throws InterruptedException {
    while (true) {
      try {
        context.runtime().remove(runId);
        heldBack = "";
        return;
      } catch (RuntimeException e) {
        heldBack = String.valueOf(e.getMessage());
        log.warn("{}: cannot clean up, retrying: {}", runId, e.toString());
        changed.run();
        Thread.sleep(REMOVE_AGAIN.toMillis());
      }
    }
  }

  /** Releases the GPUs when the driver shows none of the run's processes on them any more. */
  void free(RunHold hold, long endedNanos) throws InterruptedException {
    for (long now = endedNanos; !hold.gpus().isEmpty(); now = context.gpus().nowNanos()) {
      String why = context.leftOnGpus().lookAt(hold.gpus(), now);
      if (why.isEmpty()) {
        break;
      }
      if (!why.equals(heldBack)) {
        heldBack = why;
        log.warn("{}: GPUs held back: {}", runId, why);
        hold.holdBack(why);
        changed.run();
      }
      Thread.sleep(LOOK_AGAIN.toMillis());
    }
    hold.release();
  }

  /** All is free. */
  void done() {
    heldBack = "";
  }
}
