package berth.cli;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_FAILED;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_KEPT;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_RUNNING;
import static berth.v1.TaskEnd.TASK_END_RESTARTED;
import static berth.v1.TaskEnd.TASK_END_SERVER_LOST;
import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.SampleStatus;
import berth.rpc.Messages;
import java.time.Instant;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;

class ClusterStatusTableTest {
  private static final Instant NOW = SampleStatus.SUBMITTED.plusSeconds(600);

  private final ClusterStatusTable table =
      new ClusterStatusTable(new TimeText(NOW, ZoneOffset.UTC));
  private final SampleStatus mnist =
      new SampleStatus("cluster-5f2a", "mnist", "worker:0", "ps:0").gpus("worker:0", 2);

  @Test
  void showsAllThatTheTasksHaveBeenThrough() {
    mnist.formed().runs("worker:0", "ps:0").finished("worker:0", 137).again("worker:0");
    mnist.runs("worker:0").note("beware\033[2J");
    mnist.ended("worker:0", TASK_END_SERVER_LOST, "gpu00 is lost").restarts("gpu00 is lost");
    mnist.ended("ps:0", TASK_END_RESTARTED, "").formed().runs("worker:0").accepted("ps:0");
    mnist.phase(CLUSTER_PHASE_RUNNING).note("the whole cluster restarts: gpu00 is lost");
    mnist
        .builder()
        .setEndsBy(Messages.timestamp(NOW.plusSeconds(3600)))
        .setResubmissions(2)
        .setSupervisorRestarts(1);

    assertThat(table.render(mnist.build()))
        .isEqualTo(
            """
            mnist (cluster-5f2a)
            state        running
            owner        ann@lap
            since        06:00:00, for 10m
            time left    60m
            restarts     2
            resubmitted  2 times
            supervisor   gpu00, restarted once

            TASK      ATTEMPT  SERVER  ADDRESS         GPUS  RUN             STARTED   TIME  EXIT  WHY
            worker:0  1        gpu00   10.0.0.0:20001  0,1   run-worker-0-1  06:00:03  3s    137   exit code 137
            worker:0  2        gpu00   10.0.0.0:20002  0,1   run-worker-0-2  06:00:09  2s    -     gpu00 is lost
            worker:0  3        gpu00   10.0.0.0:20003  0,1   run-worker-0-3  06:00:16  10m   -
            ps:0      1        gpu01   10.0.0.1:20001  -     run-ps-0-1      06:00:05  8s    -     stopped, to start again
            ps:0      2        gpu01   10.0.0.1:20002  -     run-ps-0-2      -         -     -

            06:00:10  beware?[2J
            06:00:19  the whole cluster restarts: gpu00 is lost
            """);
  }

  @Test
  void showsWhatWaits() {
    mnist.waits("no room for worker:0");

    assertThat(table.render(mnist.build()))
        .isEqualTo(
            """
            mnist (cluster-5f2a)
            state       waiting
            why         no room for worker:0
            owner       ann@lap
            since       06:00:00, for 10m
            restarts    0
            supervisor  gpu00

            TASK      ATTEMPT  SERVER  ADDRESS  GPUS     RUN  STARTED  TIME  EXIT  WHY
            worker:0  -        -       -        wants 2
            ps:0      -        -       -        -
            """);
  }

  @Test
  void saysHowItEndedOrWill() {
    mnist.formed().runs("worker:0", "ps:0").decided(CLUSTER_OUTCOME_FAILED, "worker:0 failed", 3);
    assertThat(table.render(mnist.phase(CLUSTER_PHASE_KEPT).build()))
        .contains("state       kept, failed\nwhy         worker:0 failed\n");

    mnist.over().builder().setEndsBy(Messages.timestamp(NOW));
    assertThat(table.render(mnist.build()))
        .contains("state       failed, exit 3\n", "since       06:00:00, ended after 8s\n")
        .doesNotContain("time left");
  }

  @Test
  void oneWhoseSupervisorHasNotBegunHasNoTasks() {
    assertThat(table.render(new SampleStatus("c", "new").build()).lines())
        .containsExactly(
            "new (c)",
            "state       waiting",
            "owner       ann@lap",
            "since       06:00:00, for 10m",
            "restarts    0",
            "supervisor  gpu00");
  }
}
