package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;
import static org.awaitility.Awaitility.await;

import berth.client.cluster.ClusterStates;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.TmpfsDisk;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/**
 * What can go wrong while three machines train with TensorFlow and nobody sits before the cluster:
 * the training completes all the same, or says what it lacks; nothing is left; and no GPU ever is
 * in two containers.
 *
 * <p>Those faults that a training should not notice at all meet one that goes on meanwhile, one
 * fault after the other. Each of the others meets a training of its own.
 */
@Tag("docker")
@ExtendWith(ClusterMachines.Shared.class)
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class ClusterFaultsTest {
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private static ClusterMachines machines;
  private static GpuReferee referee;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(ClusterMachines started) throws IOException {
    machines = started;
    referee = new GpuReferee(machines.machines());
  }

  @AfterAll
  static void stop() {
    if (referee != null) {
      referee.close();
    }
  }

  private static void assertNothingLeft() {
    machines.assertNothingLeft();
    assertThat(referee.overlaps()).isEmpty();
  }

  /** A training that goes on as if nothing had happened. */
  @Nested
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  class Unnoticed {
    private static Training training;

    @BeforeAll
    static void train(@TempDir Path folder) throws IOException {
      training = new Training(machines, referee, folder);
    }

    @AfterEach
    void goesOn() {
      training.awaitProgress();
      training.assertNothingStartedTwice();
    }

    @AfterAll
    static void completes() throws IOException {
      try (Training ending = training) {
        ending.assertCompletes();
        ending.assertNothingStartedTwice();
      }
      assertNothingLeft();
    }

    @Test
    void aServerIsKilledAndStartedAgain() throws InterruptedException {
      ClusterMachine machine = training.machineOf(training.workerElsewhere());

      machine.kill();
      training.awaitProgress();
      machine.start();

      machines.awaitServers();
    }

    @Test
    void theRegistryIsKilledAndStartedAgain() throws InterruptedException {
      machines.registry().kill();
      training.awaitProgress();
      machines.startRegistry();

      machines.awaitServers();
    }

    @Test
    void whoWatchesIsKilled() throws Exception {
      Process watcher = machines.start("cluster", "attach", training.cluster().id());
      assertThat(watcher.errorReader().readLine()).startsWith("TASK");

      watcher.destroyForcibly().waitFor();
    }

    @Test
    void theSupervisorIsKilled() throws IOException {
      int before = training.cluster().status().getSupervisorRestarts();

      training.cluster().supervisor().destroyForcibly();

      ClusterStatus replaced =
          training.cluster().await(status -> status.getSupervisorRestarts() > before);
      assertThat(replaced.getSupervisorRestarts()).isEqualTo(before + 1);
    }

    @Test
    void theSupervisorIsKilledTogetherWithItsServer() throws Exception {
      int before = training.cluster().status().getSupervisorRestarts();
      ClusterMachine machine = training.cluster().supervisingMachine();

      machine.kill();
      training.cluster().supervisor().destroyForcibly();
      machine.start();

      ClusterStatus replaced =
          training.cluster().await(status -> status.getSupervisorRestarts() > before);
      assertThat(replaced.getSupervisorRestarts()).isEqualTo(before + 1);
      machines.awaitServers();
    }
  }

  /** Faults after which something must start again. */
  @Nested
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  class Repaired {
    private Training training;
    private WatchedCluster cluster;

    @BeforeEach
    void train(@TempDir Path folder) throws IOException {
      training = new Training(machines, referee, folder);
      cluster = training.cluster();
    }

    @AfterEach
    void leavesNothing() {
      training.close();
      assertNothingLeft();
    }

    @Test
    void aKilledWorkerStartsAgainWhereItWas() throws IOException {
      training.kill("worker:1");
      training.awaitRestart("worker:1");
      training.assertCompletes();

      assertThat(training.restarted()).containsExactly("worker:1");
      assertStartedAgainInPlace("worker:1");
      assertThat(attempt("worker:1", 1).getExitCode()).isEqualTo(137);
    }

    @Test
    void aKilledParameterServerTakesTheChiefWithItAndBothGoOnFromTheCheckpoint()
        throws IOException {
      training.kill("ps:0");
      training.awaitRestart("ps:0");
      training.awaitRestart("chief:0");
      training.assertCompletes();

      assertThat(training.restarted()).containsExactly("chief:0", "ps:0");
      assertStartedAgainInPlace("chief:0");
      assertStartedAgainInPlace("ps:0");
      assertThat(attempt("chief:0", 1).getExitCode()).isEqualTo(1);
      assertThat(attempt("ps:0", 1).getExitCode()).isEqualTo(137);
      assertThat(machines.berth("cluster", "logs", cluster.id(), "chief").out())
          .contains("goes on from " + training.checkpoints() + "/ckpt-");
    }

    @Test
    void aServerThatIsCutOffEndsItsTaskAndAllStartsAgain() throws IOException {
      String worker = training.workerElsewhere();
      ClusterMachine machine = training.machineOf(worker);

      machine.network().unplug();
      awaitGpusOf(machine);
      machine.network().replug();
      awaitSecondFormation();
      training.assertCompletes();

      assertThat(attempt(worker, 1).getEnd()).isEqualTo(TaskEnd.TASK_END_SERVER_LOST);
      assertThat(attempt(worker, 1).getWhy()).isEqualTo("what it held there is gone");
      assertThat(attempt("chief:0", 1).getEnd()).isEqualTo(TaskEnd.TASK_END_RESTARTED);
    }

    @Test
    void aSupervisorThatIsCutOffStartsAllAgainWhenItIsBack() throws IOException {
      String worker = training.workerElsewhere();
      ClusterMachine machine = cluster.supervisingMachine();

      machine.network().unplug();
      awaitGpusOf(training.machineOf(worker));
      machine.network().replug();
      awaitSecondFormation();
      training.assertCompletes();

      assertThat(attempt(worker, 1).getEnd()).isEqualTo(TaskEnd.TASK_END_SERVER_LOST);
      assertThat(cluster.status().getSupervisorRestarts()).isZero();
      machines.awaitServers();
    }

    /**
     * Returns when somebody on that machine had all of its GPUs, which he cannot have before the
     * lease of the cluster is over there and its containers are gone.
     */
    private void awaitGpusOf(ClusterMachine machine) {
      List<String> command =
          machine
              .network()
              .inside(
                  List.of(
                      Installed.command("berth"),
                      "run",
                      "--server",
                      machine.address(),
                      "--gpus",
                      Integer.toString(ClusterMachines.GPUS),
                      "--image",
                      Engine.IMAGE,
                      "--",
                      "true"));
      Installed.Result next = Installed.run(Map.of(), PATIENCE, command.toArray(String[]::new));
      assertThat(next.exitCode()).as(next.err()).isZero();
      assertThat(machine.engine().docker("ps", "-aq")).isEmpty();
    }

    private void awaitSecondFormation() {
      cluster.await(
          status ->
              status.getFormation() == 2
                  && status.getPhase() == ClusterPhase.CLUSTER_PHASE_RUNNING);
    }

    private void assertStartedAgainInPlace(String task) {
      assertThat(cluster.attempts(task)).hasSize(2);
      TaskAttempt first = attempt(task, 1);
      TaskAttempt second = attempt(task, 2);
      assertThat(first.getEnd()).isEqualTo(TaskEnd.TASK_END_FINISHED);
      assertThat(second.getServer()).isEqualTo(first.getServer());
      assertThat(second.getAddress()).isEqualTo(first.getAddress());
      assertThat(second.getGpusList()).isEqualTo(first.getGpusList());
    }

    private TaskAttempt attempt(String task, int number) {
      return cluster.attempts(task).get(number - 1);
    }
  }

  /** Disks that are full for a while: all that a {@code berthd} keeps is on one of its own. */
  @Nested
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  class OnSmallDisks {
    private static final Map<ClusterMachine, TmpfsDisk> disks = new HashMap<>();
    private static Training training;
    private static WatchedCluster cluster;

    @BeforeAll
    static void train(@TempDir Path folder) throws Exception {
      for (ClusterMachine machine : machines.machines()) {
        machine.daemon().stop();
        disks.put(machine, new TmpfsDisk(machine.state()));
        machine.start();
      }
      machines.awaitServers();
      training = new Training(machines, referee, folder);
      cluster = training.cluster();
    }

    @AfterAll
    static void completes() throws Exception {
      try {
        try (Training ending = training) {
          ending.assertCompletes();
        }
        assertThat(machines.machines()).allMatch(machine -> machine.daemon().alive());
        assertNothingLeft();
      } finally {
        for (ClusterMachine machine : machines.machines()) {
          machine.daemon().stop();
          disks.get(machine).close();
          machine.start();
        }
        machines.awaitServers();
      }
    }

    @Test
    void aTaskThatCannotBeStartedSaysWhyAndIsStartedWhenThereIsRoom() throws IOException {
      String worker = training.workerElsewhere();
      int before = cluster.attempts(worker).size();
      TmpfsDisk disk = disks.get(training.machineOf(worker));

      disk.fill();
      training.kill(worker);

      ClusterStatus stuck =
          cluster.await(
              status ->
                  notes(status)
                      .matches(
                          "(?s).*"
                              + worker
                              + " cannot be started yet: .*less than .*"
                              + " \\(--least-free-disk\\).*"));
      assertThat(WatchedCluster.attempts(stuck, worker).get(before - 1).getExitCode())
          .isEqualTo(137);
      training.awaitProgress();

      disk.empty();
      training.awaitRestart(worker);
    }

    @Test
    void aSupervisorThatCannotWriteSaysSoAndGoesOnWhenThereIsRoom() throws IOException {
      String worker = training.workerElsewhere();
      ClusterMachine machine = cluster.supervisingMachine();
      int before = cluster.attempts(worker).size();

      disks.get(machine).fill();
      training.kill(worker);
      // It hears of that in its own time, and then tries to write it down until it can: what it
      // has begun to write stays there.
      Path begun =
          machine.state().resolve("clusters").resolve(cluster.id()).resolve("state/status.new");
      await().atMost(PATIENCE).during(Duration.ofSeconds(2)).until(() -> Files.exists(begun));
      await()
          .atMost(PATIENCE)
          .until(
              () -> machines.berth("cluster", "status", cluster.id()).out(),
              shown -> shown.contains("there is no space left on the disk of " + machine.name()));
      training.awaitProgress();

      disks.get(machine).empty();
      cluster.await(status -> WatchedCluster.attempts(status, worker).size() > before);
      training.awaitRestart(worker);
      assertThat(notes(cluster.status()))
          .contains("its state cannot be written: No space left on device");
      assertThat(cluster.status().getSupervisorRestarts()).isZero();
    }

    private static String notes(ClusterStatus status) {
      return status.getNotesList().stream()
          .map(note -> note.getText() + "\n")
          .collect(Collectors.joining());
    }
  }

  @Test
  void whatIsSavedWhenTheTimeIsNearlyOverIsGoneOnWithInTheNextRound(@TempDir Path folder)
      throws IOException {
    Path checkpoints = Training.sharedFolder(machines);
    // In the first round it goes on until its time is over, in the second it does not wait.
    String script =
        "saved=$(cat $CHECKPOINT_DIR/saved || echo 0);"
            + " trap 'echo $((saved + 1)) >$CHECKPOINT_DIR/saved; [ $saved = 0 ] || exit 1' USR1;"
            + " until [ $saved = 2 ]; do sleep 0.1; done";
    Path file =
        Files.writeString(
            folder.resolve("rounds.yaml"),
            """
            image: %s
            command: [sh, -c, "%s"]
            checkpoints: %s
            time: 8s
            signal: USR1@4
            resubmit: 2
            stop-grace: 1s
            tasks:
              worker: {gpus: 1}
            """
                .formatted(Engine.IMAGE, script, checkpoints));

    try (WatchedCluster cluster = WatchedCluster.start(machines, file)) {
      ClusterStatus end = cluster.await(ClusterStates::hasEnded);

      assertThat(end.getOutcome())
          .as(end.toString())
          .isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED);
      assertThat(end.getResubmissions()).isEqualTo(2);
      assertThat(end.getRestarts()).isZero();
      assertThat(cluster.attempts("worker:0"))
          .extracting(TaskAttempt::getEnd, TaskAttempt::getFormation)
          .containsExactly(
              tuple(TaskEnd.TASK_END_TIME_LIMIT, 1),
              tuple(TaskEnd.TASK_END_FINISHED, 2),
              tuple(TaskEnd.TASK_END_FINISHED, 3));
      assertThat(checkpoints.resolve("saved")).hasContent("2");
    }
    assertNothingLeft();
  }

  @Test
  void aTaskThatDoesNotUseItsGpuEndsItsCluster(@TempDir Path folder) throws IOException {
    Path file =
        Files.writeString(
            folder.resolve("idle.yaml"),
            """
            image: %s
            command: sleep 1000
            restart: on-failure
            tasks:
              worker: {gpus: 1, idle: 5%%@2s}
              ps: {}
            """
                .formatted(Engine.IMAGE));

    try (WatchedCluster cluster = WatchedCluster.start(machines, file)) {
      ClusterStatus end = cluster.await(ClusterStates::hasEnded);

      assertThat(end.getOutcome()).isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_FAILED);
      assertThat(end.getWhy())
          .matches("worker:0 on gpu0\\d was ended: GPUs idle: used less than 5 % for 2(\\.0)? s");
      assertThat(end.getRestarts()).isZero();
    }
    assertNothingLeft();
  }
}
