package berth.cli;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_CANCELLED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_FAILED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_TIME_LIMIT;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_KEPT;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_RUNNING;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_STOPPING;
import static berth.v1.TaskEnd.TASK_END_RESTARTED;
import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.SampleStatus;
import berth.rpc.Messages;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterStatus;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ClustersTableTest {
  private static final Instant NOW = SampleStatus.SUBMITTED.plusSeconds(600);
  private static final TimeText TIMES = new TimeText(NOW, ZoneOffset.UTC);

  @Test
  void showsEveryStateInALine() {
    List<ClusterStatus> clusters =
        List.of(
            new SampleStatus("cluster-0", "begun").build(),
            cluster("1").gpus("ps:0", 1).waits("no room for \033[2Jworker:1").build(),
            cluster("2").formed().runs("worker:0").build(),
            running("3").build(),
            running("4").finished("ps:0", 1).again("ps:0").build(),
            running("5")
                .restarts("gpu01 is lost")
                .ended("worker:1", TASK_END_RESTARTED, "")
                .build(),
            running("6")
                .decided(CLUSTER_OUTCOME_FAILED, "x".repeat(100), 1)
                .phase(CLUSTER_PHASE_STOPPING)
                .build(),
            running("7")
                .decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0)
                .phase(CLUSTER_PHASE_KEPT)
                .build(),
            ended("8", CLUSTER_OUTCOME_SUCCEEDED, ""),
            ended("9", CLUSTER_OUTCOME_FAILED, "worker:1 failed"),
            ended("10", CLUSTER_OUTCOME_TIME_LIMIT, "its time was over"),
            ended("11", CLUSTER_OUTCOME_CANCELLED, "cancelled by bob@pc"));

    assertThat(new ClustersTable(TIMES).render(clusters, false))
        .isEqualTo(
            """
            NAME   STATE       TASKS    GPUS                 OWNER    SINCE     TIME  RESTARTS  SUPERVISOR  CLUSTER     WHY
            begun  waiting     0        0                    ann@lap  06:00:00  10m   0         gpu00       cluster-0
            c1     waiting     3        1, all of 2 servers  ann@lap  06:00:00  10m   0         gpu00       cluster-1   no room for ?[2Jworker:1
            c2     starting    1/3 run  0                    ann@lap  06:00:00  10m   0         gpu00       cluster-2
            c3     running     3        4                    ann@lap  06:00:00  10m   0         gpu00       cluster-3
            c4     running     2/3 run  4                    ann@lap  06:00:00  10m   1         gpu00       cluster-4
            c5     restarting  2/3 run  4                    ann@lap  06:00:00  10m   1         gpu00       cluster-5   gpu01 is lost
            c6     stopping    3        4                    ann@lap  06:00:00  10m   0         gpu00       cluster-6   XXX...
            c7     kept        3        4                    ann@lap  06:00:00  10m   0         gpu00       cluster-7
            c8     succeeded   3        4                    ann@lap  06:00:00  5m    0         gpu00       cluster-8
            c9     failed      3        4                    ann@lap  06:00:00  5m    0         gpu00       cluster-9   worker:1 failed
            c10    time limit  3        4                    ann@lap  06:00:00  5m    0         gpu00       cluster-10  its time was over
            c11    cancelled   3        4                    ann@lap  06:00:00  5m    0         gpu00       cluster-11  cancelled by bob@pc
            """
                .replace("XXX", "x".repeat(57)));
  }

  @Test
  void hidesWhatEndedLongAgoUnlessAsked() {
    List<ClusterStatus> clusters = new ArrayList<>();
    for (int i = 1; i <= 8; i++) {
      clusters.add(ended("" + i, CLUSTER_OUTCOME_SUCCEEDED, ""));
    }
    clusters.add(running("9").build());
    ClustersTable table = new ClustersTable(TIMES);

    assertThat(table.render(clusters, false).lines())
        .hasSize(8)
        .last()
        .isEqualTo("without 3 that ended earlier (shown by --all)");
    assertThat(table.render(clusters, false))
        .contains("cluster-4", "cluster-9")
        .doesNotContain("cluster-3");
    assertThat(table.render(clusters, true).lines()).hasSize(10);
    assertThat(table.render(List.of(), false)).isEqualTo("no clusters\n");
  }

  /** Two workers that want all GPUs of a server each, and a parameter server. */
  private static SampleStatus cluster(String number) {
    return new SampleStatus("cluster-" + number, "c" + number, "worker:0", "worker:1", "ps:0")
        .gpus("worker:0", -1)
        .gpus("worker:1", -1);
  }

  private static SampleStatus running(String number) {
    SampleStatus running = cluster(number).formed().runs("worker:0", "worker:1", "ps:0");
    running.last("worker:0").addGpus(0).addGpus(1);
    running.last("worker:1").addGpus(0).addGpus(1);
    return running.phase(CLUSTER_PHASE_RUNNING);
  }

  private static ClusterStatus ended(String number, ClusterOutcome outcome, String why) {
    return running(number)
        .decided(outcome, why, 1)
        .over()
        .builder()
        .setEndedAt(Messages.timestamp(SampleStatus.SUBMITTED.plusSeconds(300)))
        .build();
  }
}
