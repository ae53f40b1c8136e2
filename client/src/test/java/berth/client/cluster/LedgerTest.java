package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LedgerTest {
  private static final TaskName WORKER = new TaskName("worker", 0);
  private final List<ClusterStatus> saved = new ArrayList<>();

  @Test
  void aStartOfWhichNobodyKnowsIsTriedAgainUnderTheSameId() {
    Ledger ledger =
        after(TaskAttempt.newBuilder().setRequestId("r1").setEnd(TaskEnd.TASK_END_NOT_STARTED));

    ledger.again(WORKER);

    assertThat(ledger.attempt(WORKER).getRequestId()).isEqualTo("r1");
    assertThat(ledger.attempt(WORKER).getNumber()).isEqualTo(2);
    assertThat(saved).isNotEmpty();
  }

  @Test
  void aRunThatTheServerTookIsFollowedByAnotherOne() {
    for (TaskEnd end : List.of(TaskEnd.TASK_END_NOT_STARTED, TaskEnd.TASK_END_FINISHED)) {
      Ledger ledger =
          after(TaskAttempt.newBuilder().setRequestId("r1").setRunId("run-1").setEnd(end));

      ledger.again(WORKER);

      assertThat(ledger.attempt(WORKER).getRequestId()).isNotEmpty().isNotEqualTo("r1");
    }
  }

  private Ledger after(TaskAttempt.Builder first) {
    ClusterStatus begun =
        ClusterStatus.newBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
            .addTasks(TaskStatus.newBuilder().setType("worker").addAttempts(first.setNumber(1)))
            .build();
    Ledger ledger = Ledger.supervised(saved::add, begun, Clock.systemUTC());
    ledger.begin(
        ClusterRequest.named("line")
            .all(run -> run.command("true"))
            .task("worker", 1, run -> {})
            .build());
    return ledger;
  }
}
