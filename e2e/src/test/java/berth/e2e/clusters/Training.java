package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.cluster.ClusterStates;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Leftovers;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A training with TensorFlow that one of the machines supervises, with tasks on all of them. It
 * starts again what fails, saves something after each of its epochs, and goes on until somebody
 * says that it is enough.
 */
final class Training implements AutoCloseable {
  private static final Path ROOT = Path.of(System.getProperty("berth.root"));
  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final Pattern CHECKPOINT = Pattern.compile("ckpt-(\\d+)\\.index");
  private static final List<String> TASKS = List.of("chief:0", "worker:0", "worker:1", "ps:0");
  // What it takes to learn a line.
  private static final int FEWEST_EPOCHS = 6;

  private final ClusterMachines machines;
  private final GpuReferee referee;
  private final int containersBefore;
  private final Path checkpoints;
  private final WatchedCluster cluster;

  /**
   * Returns when it has saved something, so it is not over and can go on from there.
   *
   * @param folder for files of its own
   */
  Training(ClusterMachines machines, GpuReferee referee, Path folder) throws IOException {
    this.machines = machines;
    this.referee = referee;
    this.containersBefore = referee.starts();
    this.checkpoints = sharedFolder(machines);
    Path files = Files.createDirectory(folder.resolve("files"));
    for (String script :
        List.of(
            "examples/clusters/parameter_server.py", "e2e/src/test/python/train_until_enough.py")) {
      Files.copy(ROOT.resolve(script), files.resolve(Path.of(script).getFileName()));
    }
    Path file =
        Files.writeString(
            folder.resolve("training.yaml"),
            """
            service: tensorflow
            files: files
            script: train_until_enough.py --model-dir %1$s
            checkpoints: %1$s
            env: {TF_CPP_MIN_LOG_LEVEL: "2", TF_ENABLE_ONEDNN_OPTS: "0"}
            layout: spread
            restart: on-failure
            stop-grace: 2s
            tasks:
              chief: {gpus: 1, memory: 1g}
              worker: {instances: 2, gpus: 1, background: true}
              ps: {}
            """
                .formatted(checkpoints));
    this.cluster = WatchedCluster.start(machines, file);
    awaitProgress();
    cluster.await(status -> status.getPhase() == ClusterPhase.CLUSTER_PHASE_RUNNING);
  }

  /** A new folder that all servers have and that programs in images may write to. */
  static Path sharedFolder(ClusterMachines machines) throws IOException {
    Path folder = Files.createTempDirectory(machines.shared(), "test");
    // They are other users.
    return Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
  }

  WatchedCluster cluster() {
    return cluster;
  }

  Path checkpoints() {
    return checkpoints;
  }

  /** Returns when it has saved something since. */
  void awaitProgress() {
    awaitCheckpoint(newestCheckpoint() + 1);
  }

  private void awaitCheckpoint(int number) {
    await().atMost(PATIENCE).until(() -> newestCheckpoint() >= number);
  }

  private int newestCheckpoint() {
    return Leftovers.filesIn(checkpoints).stream()
        .map(CHECKPOINT::matcher)
        .filter(Matcher::matches)
        .mapToInt(file -> Integer.parseInt(file.group(1)))
        .max()
        .orElse(0);
  }

  /** Checks that it still goes on, and comes to a good end when it is told that it is enough. */
  void assertCompletes() throws IOException {
    awaitCheckpoint(Math.max(newestCheckpoint() + 1, FEWEST_EPOCHS));
    Files.createFile(checkpoints.resolve("enough"));
    ClusterStatus end = cluster.await(ClusterStates::hasEnded);
    assertThat(end.getOutcome())
        .as(end.toString())
        .isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED);
  }

  /** Kills the program of a task as the kernel would, behind the back of the engine. */
  void kill(String task) {
    TaskAttempt last = cluster.attempts(task).get(cluster.attempts(task).size() - 1);
    Engine engine = machines.named(last.getServer()).engine();
    String container = engine.docker("ps", "-q", "--filter", "label=berth.run=" + last.getRunId());
    long process = Long.parseLong(engine.inspect(container, "{{.State.Pid}}"));
    assertThat(ProcessHandle.of(process).orElseThrow().destroyForcibly()).isTrue();
  }

  /** A worker on another machine than the one that supervises it. */
  String workerElsewhere() {
    String supervising = cluster.supervisingMachine().name();
    return Stream.of("worker:0", "worker:1")
        .filter(worker -> !serverOf(worker).equals(supervising))
        .findFirst()
        .orElseThrow();
  }

  /** Where a task was started first. */
  ClusterMachine machineOf(String task) {
    return machines.named(serverOf(task));
  }

  private String serverOf(String task) {
    return cluster.attempts(task).get(0).getServer();
  }

  /** Returns when a task runs that was started again. */
  void awaitRestart(String task) {
    cluster.await(
        status -> {
          List<TaskAttempt> attempts = WatchedCluster.attempts(status, task);
          return attempts.size() > 1 && ClusterStates.runs(attempts.get(attempts.size() - 1));
        });
  }

  /** The tasks that were started more than once. */
  List<String> restarted() {
    return TASKS.stream().filter(task -> cluster.attempts(task).size() > 1).toList();
  }

  /** Checks that nothing was started again, neither by order nor by mistake. */
  void assertNothingStartedTwice() {
    assertThat(restarted()).isEmpty();
    assertThat(cluster.status().getRestarts()).isZero();
    assertThat(referee.starts() - containersBefore).isEqualTo(TASKS.size());
  }

  /** Ends it, if a test has failed before its end. */
  @Override
  public void close() {
    cluster.close();
  }
}
