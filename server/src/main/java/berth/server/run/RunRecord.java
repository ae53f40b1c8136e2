package berth.server.run;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * What has become of a run so far: all that a restarted daemon must know, but what was asked for.
 *
 * @param requestId by which its caller knows it; empty if by none
 * @param number how many runs this server accepted before it: their order, whatever the clock says
 * @param stop who wants it to end, and why
 * @param keptBytes what it takes on the disk, once it is over and that was looked at
 */
record RunRecord(
    String id,
    String requestId,
    long number,
    Instant accepted,
    Phase phase,
    Optional<Started> started,
    Optional<Stop> stop,
    Optional<Ended> ended,
    OptionalLong keptBytes) {

  /** Where a run is in its life; it never goes back. */
  enum Phase {
    /** Waits for its GPUs. */
    QUEUED,
    /** Has what it asked for; its image and files are being brought. */
    PREPARING,
    /** May have been started: from now on it is never made anew. */
    LAUNCHING,
    RUNNING,
    /** Over, and all of its output is there; what it held is still to be freed. */
    ENDED,
    /** Nothing is left but its output and files. */
    CLEANED;

    boolean isAtLeast(Phase other) {
      return compareTo(other) >= 0;
    }
  }

  /** Why a run is over. */
  enum ExitReason {
    FINISHED,
    CANCELLED,
    TIME_LIMIT,
    OUT_OF_MEMORY,
    IMAGE_NOT_FOUND,
    START_FAILED,
    SERVER_LOST,
    NOT_RESERVED,
    IDLE,
    DISK_LIMIT
  }

  /**
   * The start.
   *
   * @param nanos on the machine's monotonic clock, for limits
   * @param timeLimit from then on; the service's, if the request had none
   */
  record Started(
      String containerId,
      Instant at,
      long nanos,
      OptionalInt pid,
      boolean isolated,
      List<String> notEnforced,
      Optional<Duration> timeLimit) {
    Started {
      notEnforced = List.copyOf(notEnforced);
    }
  }

  /** An order to end it. The first one counts. */
  record Stop(ExitReason reason, String message) {}

  /** The end. */
  record Ended(
      int exitCode,
      ExitReason reason,
      String message,
      Duration wallTime,
      OptionalLong peakMemory,
      double gpuSeconds,
      Instant at,
      long outputBytes) {
    Ended withOutput(long bytes) {
      return new Ended(exitCode, reason, message, wallTime, peakMemory, gpuSeconds, at, bytes);
    }
  }

  static RunRecord accepted(String id, String requestId, long number, Instant now, Phase first) {
    return new RunRecord(
        id,
        requestId,
        number,
        now,
        first,
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        OptionalLong.empty());
  }

  RunRecord at(Phase next) {
    return new RunRecord(id, requestId, number, accepted, next, started, stop, ended, keptBytes);
  }

  RunRecord running(Started start) {
    return new RunRecord(
        id, requestId, number, accepted, Phase.RUNNING, Optional.of(start), stop, ended, keptBytes);
  }

  /** The first order counts, and what is over needs none. */
  RunRecord stopping(Stop order) {
    return stop.isPresent() || phase.isAtLeast(Phase.ENDED)
        ? this
        : new RunRecord(
            id, requestId, number, accepted, phase, started, Optional.of(order), ended, keptBytes);
  }

  RunRecord ended(Ended end) {
    return new RunRecord(
        id, requestId, number, accepted, Phase.ENDED, started, stop, Optional.of(end), keptBytes);
  }

  RunRecord keeping(long bytes) {
    return new RunRecord(
        id, requestId, number, accepted, phase, started, stop, ended, OptionalLong.of(bytes));
  }
}
