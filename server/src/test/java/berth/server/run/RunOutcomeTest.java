package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

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
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class RunOutcomeTest {
  private static final Instant START = Instant.parse("2026-01-02T03:04:05Z");
  private static final RunRecord QUEUED = RunRecord.accepted("run-1", "", 1, START, Phase.QUEUED);
  private static final RunRecord RUNNING =
      QUEUED.running(
          new Started(
              "c1",
              START,
              System.nanoTime(),
              OptionalInt.empty(),
              true,
              List.of(),
              Optional.empty()));
  private static final Stop TIME = new Stop(ExitReason.TIME_LIMIT, "time limit of 1.0 s exceeded");

  @Test
  void anOrderToStopCountsMoreThanMemoryAndThatMoreThanALoss() {
    Exit exit = new Exit(137, true, Optional.empty(), "the engine went down");

    assertEnd(of(RUNNING.stopping(TIME)).of(exit), ExitReason.TIME_LIMIT, TIME.message());
    assertEnd(of(RUNNING).of(exit), ExitReason.OUT_OF_MEMORY, "out of memory");
    assertEnd(
        of(RUNNING).of(new Exit(137, false, Optional.empty(), "the engine went down")),
        ExitReason.SERVER_LOST,
        "the engine went down");
    assertEnd(of(RUNNING).of(new Exit(137, false, Optional.empty(), "")), ExitReason.FINISHED, "");
  }

  @Test
  void whatRanBeforeARebootIsLost() {
    RunOutcome outcome = new RunOutcome(RUNNING, false, 0, OptionalLong.empty());
    assertEnd(
        outcome.of(new Exit(0, false, Optional.empty(), "")),
        ExitReason.SERVER_LOST,
        "the machine was rebooted");
  }

  @Test
  void gpuTimeIsThatOfAllGpusBetweenStartAndEnd() {
    Ended end =
        new RunOutcome(RUNNING, true, 2, OptionalLong.of(7))
            .of(new Exit(3, false, Optional.of(START.plusSeconds(10)), ""));
    assertThat(end)
        .isEqualTo(
            new Ended(
                3,
                ExitReason.FINISHED,
                "",
                Duration.ofSeconds(10),
                OptionalLong.of(7),
                20,
                START.plusSeconds(10),
                0));
  }

  @Test
  void aClockThatIsSetBackMakesNoNegativeTime() {
    Exit early = new Exit(0, false, Optional.of(START.minusSeconds(10)), "");
    assertThat(of(RUNNING).of(early).wallTime()).isZero();
  }

  @Test
  void aFailureBeforeTheStartIsNamedByWhatWasMissing() {
    RunRecord preparing = QUEUED.at(Phase.PREPARING);
    assertThat(of(QUEUED).of(failure(Reason.UNAVAILABLE)).reason())
        .isEqualTo(ExitReason.NOT_RESERVED);
    assertThat(of(preparing).of(failure(Reason.UNAVAILABLE)).reason())
        .isEqualTo(ExitReason.SERVER_LOST);
    assertThat(of(preparing).of(failure(Reason.NOT_FOUND)).reason())
        .isEqualTo(ExitReason.IMAGE_NOT_FOUND);
    assertThat(of(preparing).of(failure(Reason.CONFLICT)).reason())
        .isEqualTo(ExitReason.START_FAILED);
    assertThat(of(preparing.stopping(TIME)).of(failure(Reason.CONFLICT)).reason())
        .isEqualTo(ExitReason.TIME_LIMIT);
  }

  private static RunOutcome of(RunRecord record) {
    return new RunOutcome(record, true, 0, OptionalLong.empty());
  }

  private static BerthException failure(Reason reason) {
    return new BerthException(reason, "why");
  }

  private static void assertEnd(Ended end, ExitReason reason, String message) {
    assertThat(end.reason()).isEqualTo(reason);
    assertThat(end.message()).isEqualTo(message);
  }
}
