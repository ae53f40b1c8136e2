package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.RunEngine.Exit;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Decides how a run has ended.
 *
 * @param record before its end
 * @param sameBoot whether the machine has not been rebooted since its start
 */
record RunOutcome(RunRecord record, boolean sameBoot, int gpus, OptionalLong peakMemory) {
  static final String REBOOTED = "the machine was rebooted";

  /** Of a program that has run. An order to stop counts more than how it ended then. */
  Ended of(Exit exit) {
    ExitReason reason = ExitReason.FINISHED;
    String message = "";
    if (record.stop().isPresent()) {
      reason = record.stop().get().reason();
      message = record.stop().get().message();
    } else if (exit.outOfMemory()) {
      reason = ExitReason.OUT_OF_MEMORY;
      message = "out of memory";
    } else if (!sameBoot || !exit.lost().isEmpty()) {
      reason = ExitReason.SERVER_LOST;
      message = sameBoot ? exit.lost() : REBOOTED;
    }
    return ended(exit.code(), reason, message, exit.at());
  }

  /** Of one that could not be started, or was stopped before. */
  Ended of(BerthException failure) {
    return ended(
        0,
        record.stop().map(Stop::reason).orElseGet(() -> reasonOf(failure)),
        failure.getMessage(),
        Optional.empty());
  }

  private ExitReason reasonOf(BerthException failure) {
    if (record.phase() == Phase.QUEUED) {
      return ExitReason.NOT_RESERVED;
    }
    return switch (failure.reason()) {
      case NOT_FOUND -> ExitReason.IMAGE_NOT_FOUND;
      case UNAVAILABLE -> ExitReason.SERVER_LOST;
      default -> ExitReason.START_FAILED;
    };
  }

  /** What those who wait for a run get that was ordered to stop. */
  static BerthException stopped(RunRecord record) {
    return new BerthException(
        Reason.CANCELLED, record.id() + ": " + record.stop().map(Stop::message).orElse("stopped"));
  }

  // The output is counted when all of it is there.
  private Ended ended(int code, ExitReason reason, String message, Optional<Instant> at) {
    Duration wallTime = record.started().map(started -> since(started, at)).orElse(Duration.ZERO);
    return new Ended(
        code,
        reason,
        message,
        wallTime,
        peakMemory,
        gpus * wallTime.toNanos() / 1e9,
        at.orElseGet(Instant::now),
        0);
  }

  private static Duration since(Started started, Optional<Instant> end) {
    Duration time =
        end.map(at -> Duration.between(started.at(), at))
            .orElseGet(() -> Duration.ofNanos(System.nanoTime() - started.nanos()));
    return time.isNegative() ? Duration.ZERO : time;
  }
}
