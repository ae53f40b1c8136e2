package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Messages;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;

class LedgerTest {
  private static final Instant START = Instant.parse("2026-03-04T05:06:07Z");

  @Test
  void aTaskOfWhichNothingIsHeardAnyMoreRanSinceItsStart() {
    TaskAttempt started = TaskAttempt.newBuilder().setStartedAt(Messages.timestamp(START)).build();

    assertThat(ranFor(started, START.plusSeconds(90))).isEqualTo(Duration.ofSeconds(90));
    // The clock may have been set back.
    assertThat(ranFor(started, START.minusSeconds(90))).isZero();
    assertThat(ranFor(TaskAttempt.getDefaultInstance(), START)).isZero();
  }

  private static Duration ranFor(TaskAttempt attempt, Instant now) {
    Ledger ledger =
        Ledger.supervised(
            status -> {},
            ClusterStatus.newBuilder()
                .addTasks(TaskStatus.newBuilder().setType("worker").addAttempts(attempt))
                .build(),
            Clock.fixed(now, ZoneOffset.UTC));
    ledger.begin(
        ClusterRequest.named("test")
            .all(task -> task.command("true"))
            .task("worker", 1, worker -> worker.gpus(1))
            .build());
    return ledger.ranFor(new TaskName("worker", 0));
  }
}
