package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.Berth;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.DetachedCluster;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.RunServer;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Clusters that live on without the terminal, by the installed commands, on two servers with
 * simulated GPUs whose tasks are plain processes.
 */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class DetachedClustersTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  // Goes on when the test says so, and prints where it is.
  private static final String WORK =
      """
      echo "start $RESTART_COUNT of {job_name} {task_index}"
      [ {job_name} = ps ] && exec sleep 1000
      until [ -e %s ]; do sleep 0.1; done
      echo done
      """;

  @TempDir private static Path folder;
  private static Daemon registry;
  private static List<RunServer> servers;

  @TempDir private Path here;
  private Path go;

  @BeforeAll
  static void start() throws IOException {
    registry = Daemon.start(folder, "berth-registry");
    servers = new ArrayList<>();
    servers.add(server("gpu1", "22300-22399"));
    servers.add(server("gpu2", "22400-22499"));
    await()
        .atMost(PATIENCE)
        .until(() -> berth("servers").out().lines().filter(l -> l.startsWith("gpu")).count() == 2);
  }

  private static RunServer server(String name, String ports) throws IOException {
    return new RunServer(
        Files.createDirectory(folder.resolve(name)),
        "--name",
        name,
        "--runtime",
        "process",
        "--allow-root",
        "--simulate-gpus",
        "2",
        "--port-range",
        ports,
        "--registry",
        registry.address());
  }

  @AfterEach
  void leavesNothing() {
    servers.forEach(RunServer::assertNothingLeft);
  }

  @AfterAll
  static void stop() {
    servers.forEach(RunServer::close);
    registry.close();
  }

  private static Result berth(String... args) {
    return Installed.run(
        Map.of("BERTH_REGISTRY", registry.address()),
        PATIENCE,
        Stream.concat(Stream.of(Installed.command("berth")), Stream.of(args))
            .toArray(String[]::new));
  }

  /** Hands over two workers and a parameter server that work until {@link #go} is there. */
  private String detach(String name, String... options) throws IOException {
    go = here.resolve("go");
    Path script =
        Files.writeString(
            here.resolve("work.sh"),
            WORK.formatted(go).replace("{job_name}", "$1").replace("{task_index}", "$2"));
    List<String> words =
        new ArrayList<>(
            List.of(
                "cluster",
                "run",
                "--detach",
                "--name",
                name,
                "--workers",
                "2",
                "--ps",
                "1",
                "-g",
                "1"));
    words.addAll(List.of(options));
    words.addAll(List.of(script.toString(), "{job_name}", "{task_index}"));
    Result result = berth(words.toArray(String[]::new));
    assertThat(result.exitCode()).as(result.err()).isZero();
    return result.out().strip();
  }

  private static ClusterStatus status(String name) throws InvalidProtocolBufferException {
    Result result = berth("cluster", "status", "--json", name);
    assertThat(result.exitCode()).as(result.err()).isZero();
    ClusterStatus.Builder status = ClusterStatus.newBuilder();
    JsonFormat.parser().merge(result.out(), status);
    return status.build();
  }

  private static void awaitPhase(String name, ClusterPhase phase) {
    await().atMost(PATIENCE).until(() -> status(name).getPhase() == phase);
  }

  private static List<TaskAttempt> attempts(ClusterStatus status, String type, int index) {
    return status.getTasksList().stream()
        .filter(task -> task.getType().equals(type) && task.getIndex() == index)
        .map(TaskStatus::getAttemptsList)
        .findFirst()
        .orElseThrow();
  }

  private static RunServer serverOf(String name) {
    return servers.get(name.equals("gpu1") ? 0 : 1);
  }

  /** The process that supervises a cluster: it has files of it open, and is not berthd. */
  private static ProcessHandle supervisor(ClusterStatus status) {
    RunServer server = serverOf(status.getServer());
    Path folder = server.state().resolve("clusters").resolve(status.getClusterId());
    return await()
        .atMost(PATIENCE)
        .until(
            () ->
                Leftovers.processesIn(folder).stream()
                    .map(process -> Long.parseLong(process.substring(0, process.indexOf(' '))))
                    .filter(pid -> pid != server.daemon().pid())
                    .flatMap(pid -> ProcessHandle.of(pid).stream())
                    .findFirst(),
            Optional::isPresent)
        .orElseThrow();
  }

  private static String commandLine(ProcessHandle process) {
    return process.info().commandLine().orElse("");
  }

  @Test
  void livesOnWithoutTheTerminalAndIsSeenByAll() throws IOException {
    String id = detach("study");
    awaitPhase("study", ClusterPhase.CLUSTER_PHASE_RUNNING);

    assertThat(berth("clusters").out())
        .containsPattern("study +running +3 +2 +\\S+ +\\S+ +\\S+ +0 +gpu[12] +" + id);
    Result twice =
        berth("cluster", "run", "--detach", "--name", "study", "--workers", "1", "--", "true");
    assertThat(twice.exitCode()).isEqualTo(125);
    assertThat(twice.err()).contains("there is a cluster study already, " + id);
    Files.createFile(go);
    Result attached = berth("cluster", "attach", "study");

    assertThat(attached.exitCode()).as(attached.err()).isZero();
    assertThat(attached.err()).contains("study succeeded after");
    assertThat(berth("cluster", "logs", "study", "worker").out().lines())
        .containsExactlyInAnyOrder(
            "[worker:0] start 0 of worker 0",
            "[worker:0] done",
            "[worker:1] start 0 of worker 1",
            "[worker:1] done");
    assertThat(berth("clusters", "--all").out()).containsPattern("study +succeeded");
  }

  @Test
  void survivesTheDeathOfItsSupervisorAndOfTheServerThatHasIt() throws Exception {
    detach("tough", "--restart", "on-failure");
    awaitPhase("tough", ClusterPhase.CLUSTER_PHASE_RUNNING);
    ClusterStatus before = status("tough");
    RunServer supervising = serverOf(before.getServer());

    ProcessHandle first = supervisor(before);
    first.destroyForcibly();
    await().atMost(PATIENCE).until(() -> status("tough").getSupervisorRestarts() == 1);
    // Now berthd, which leaves the supervisor alone, and then both.
    ProcessHandle second = supervisor(before);
    supervising.kill();
    supervising.start();
    assertThat(supervisor(status("tough")).pid()).isEqualTo(second.pid());
    supervising.kill();
    second.destroyForcibly();
    supervising.start();
    await().atMost(PATIENCE).until(() -> status("tough").getSupervisorRestarts() == 2);
    Files.createFile(go);
    Result attached = berth("cluster", "attach", "tough");

    assertThat(attached.exitCode()).as(attached.err()).isZero();
    ClusterStatus after = status("tough");
    assertThat(after.getTasksList()).allMatch(task -> task.getAttemptsCount() == 1);
    assertThat(runsOf("tough")).hasSize(3);
  }

  private static List<String> runsOf(String cluster) {
    return servers.stream()
        .flatMap(server -> server.runs().listRuns(RunServer.TIMEOUT).getRunsList().stream())
        .map(run -> run.getRequest().getName())
        .filter(name -> name.endsWith(" of cluster " + cluster))
        .toList();
  }

  @Test
  void aKilledTaskStartsAgainAtItsAddressAndItsHistoryIsKept() throws IOException {
    detach("again", "--restart", "on-failure");
    awaitPhase("again", ClusterPhase.CLUSTER_PHASE_RUNNING);
    TaskAttempt first = attempts(status("again"), "worker", 0).get(0);

    killProgram(first);
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              List<TaskAttempt> all = attempts(status("again"), "worker", 0);
              return all.size() == 2 && all.get(1).hasStartedAt();
            });
    Files.createFile(go);
    assertThat(berth("cluster", "attach", "again").exitCode()).isZero();

    List<TaskAttempt> all = attempts(status("again"), "worker", 0);
    assertThat(all.get(0).getExitCode()).isEqualTo(137);
    assertThat(all.get(1).getAddress()).isEqualTo(first.getAddress());
    assertThat(all.get(1).getGpusList()).isEqualTo(first.getGpusList());
    assertThat(berth("cluster", "logs", "again", "worker:0").out())
        .contains("start 0 of worker 0", "start 1 of worker 0");
    assertThat(berth("cluster", "status", "again").out())
        .containsPattern("worker:0 +1 +.*137 +exit code 137\n")
        .containsPattern("worker:0 +2 +.* 0 +finished\n");
  }

  private static void killProgram(TaskAttempt attempt) {
    Path work = serverOf(attempt.getServer()).runFolder(attempt.getRunId()).resolve("work");
    List<ProcessHandle> programs =
        ProcessHandle.allProcesses()
            .filter(process -> isIn(process, work))
            .filter(process -> commandLine(process).contains("./work.sh"))
            .filter(process -> !commandLine(process).contains("trap"))
            .toList();
    assertThat(programs).isNotEmpty();
    programs.forEach(ProcessHandle::destroyForcibly);
  }

  private static boolean isIn(ProcessHandle process, Path folder) {
    try {
      return Files.readSymbolicLink(Path.of("/proc/" + process.pid() + "/cwd")).equals(folder);
    } catch (IOException e) {
      return false;
    }
  }

  @Test
  void endsWhenSomebodyCancelsIt() throws IOException {
    detach("unwanted");
    awaitPhase("unwanted", ClusterPhase.CLUSTER_PHASE_RUNNING);

    Result cancelled = berth("cluster", "cancel", "unwanted");

    assertThat(cancelled.exitCode()).as(cancelled.err()).isZero();
    ClusterStatus after = status("unwanted");
    assertThat(after.getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(after.getWhy()).contains("cancelled");
    assertThat(berth("cluster", "cancel", "unwanted").exitCode()).isEqualTo(125);
  }

  @Test
  void oneThatWaitsHoldsNothingAndCanBeCancelled() throws IOException {
    String first = detach("first");
    awaitPhase("first", ClusterPhase.CLUSTER_PHASE_RUNNING);
    Result second =
        berth(
            "cluster", "run", "-d", "--name", "second", "--workers", "2", "-g", "2", "--", "true");
    assertThat(second.exitCode()).as(second.err()).isZero();
    await()
        .atMost(PATIENCE)
        .until(() -> status("second").getWaitingFor().contains("there is no room"));

    assertThat(berth("clusters").out()).containsPattern("second +waiting");
    assertThat(berth("cluster", "cancel", "second").exitCode()).isZero();
    assertThat(status("second").getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(berth("cluster", "cancel", "--force", first).exitCode()).isZero();
  }

  @Test
  void aProgramMayHandItOverTooWithItsFiles() throws IOException {
    Files.writeString(here.resolve("data"), "1 2 3");
    DetachedCluster detached;
    try (Berth berth = Berth.connect(registry.address())) {
      detached =
          berth.clusterDetached(
              ClusterRequest.named("library")
                  .all(task -> task.files(here).command("sh", "-c", "exit {task_index}"))
                  .task("worker", 2, worker -> worker.gpus(1))
                  .build());
    }

    Result attached = berth("cluster", "attach", detached.id());

    assertThat(attached.exitCode()).as(attached.err()).isEqualTo(1);
    assertThat(attached.err()).contains("worker:1 on gpu", "ended with exit code 1");
  }
}
