package berth.cli;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_CANCELLED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_FAILED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_RUNNING;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_STOPPING;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.ThisUser;
import berth.client.cluster.ClusterStates;
import berth.command.CommandRunner;
import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.fake.FakeServer;
import berth.fake.SampleStatus;
import berth.rpc.Address;
import berth.rpc.Messages;
import berth.v1.AttachRunRequest;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.RunEvent;
import com.google.protobuf.util.JsonFormat;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The commands that look at supervised clusters and end them, as people type them. */
@Timeout(60)
class SupervisedClustersTest {
  private static final Terminal PIPE = new Terminal(false, false);

  private final FakeRegistry registry = new FakeRegistry();
  private final FakeServer gpu01 = new FakeServer("gpu01");
  private final FakeServer gpu02 = new FakeServer("gpu02");
  private final FakeRuns first = new FakeRuns();
  private final FakeRuns second = new FakeRuns();
  private final SampleStatus mnist =
      new SampleStatus("cluster-5f2a", "mnist", "worker:0", "worker:1", "ps:0")
          .at("gpu00", first.address())
          .at("gpu01", second.address())
          .at("gpu02", first.address());

  private final PrintStream usualOut = System.out;
  private final PrintStream usualErr = System.err;
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();

  @BeforeEach
  void begin() {
    registry.servers =
        List.of(
            FakeRegistry.server("gpu01", gpu01.address(), 1, 1),
            FakeRegistry.server("gpu02", gpu02.address(), 1, 1));
    first.onAttach = SupervisedClustersTest::printItsName;
    second.onAttach = SupervisedClustersTest::printItsName;
    System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
  }

  @AfterEach
  void close() {
    System.setOut(usualOut);
    System.setErr(usualErr);
    second.close();
    first.close();
    gpu02.close();
    gpu01.close();
    registry.close();
  }

  @Test
  void allServersTogetherMakeOneTable() {
    FakeRuns old = first;
    registry.servers =
        List.of(
            FakeRegistry.server("gpu01", gpu01.address(), 1, 1),
            FakeRegistry.server("gone", new Address("127.0.0.1", 1), 1, 1),
            FakeRegistry.server("old", old.address(), 1, 1),
            FakeRegistry.server("gpu02", gpu02.address(), 1, 1));
    gpu01.clusters.put(submitted("second", 20));
    gpu01.clusters.put(submitted("third", 30));
    gpu02.clusters.put(submitted("first", 10));

    assertThat(berth("clusters")).isZero();
    assertThat(text(out).lines())
        .map(line -> line.replaceFirst(" .*", ""))
        .containsExactly("NAME", "first", "second", "third");
    assertThat(text(err)).isEqualTo("berth: gone: no berthd at 127.0.0.1:1: Connection refused\n");
  }

  @Test
  void jsonIsALineForEachCluster() throws IOException {
    gpu01.clusters.put(submitted("second", 20));
    gpu02.clusters.put(submitted("first", 10));

    assertThat(berth("clusters", "--json")).isZero();
    assertThat(text(out).lines())
        .map(SupervisedClustersTest::parsed)
        .map(ClusterStatus::getName)
        .containsExactly("first", "second");
  }

  @Test
  void statusHasAllAttemptsOfTheTasks() {
    mnist.formed().runs("worker:0", "worker:1", "ps:0").finished("worker:1", 1).again("worker:1");
    gpu01.clusters.put(mnist.build());

    assertThat(berth("cluster", "status", "mnist")).isZero();
    assertThat(text(out)).contains("\nworker:1  1  ", "\nworker:1  2  ");
    out.reset();
    assertThat(berth("cluster", "status", "--json", "mnist")).isZero();
    assertThat(text(out).lines()).hasSize(1);
    assertThat(parsed(text(out))).isEqualTo(known());
  }

  @Test
  void statusIsWatchedUntilTheEnd() throws Exception {
    gpu01.clusters.put(mnist.waits("no room").build());
    CompletableFuture<Integer> table = begin("cluster", "status", "--watch", "mnist");
    gpu01.clusters.watched.take();
    gpu01.clusters.put(mnist.formed().build());
    gpu01.clusters.put(mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over().build());

    assertThat(table.join()).isZero();
    assertThat(text(out).lines().filter(line -> line.startsWith("state ")))
        .map(line -> line.replaceFirst("state *", ""))
        .containsExactly("waiting", "starting", "succeeded, exit 0");
    out.reset();
    assertThat(berth("cluster", "status", "--watch", "--json", "mnist")).isZero();
    assertThat(parsed(text(out))).isEqualTo(known());
  }

  @Test
  void aNameThatNobodyHasIsOneSentence() {
    for (String command : List.of("status", "logs", "attach", "cancel")) {
      err.reset();
      assertThat(berth("cluster", command, "x")).isEqualTo(125);
      assertThat(text(err))
          .isEqualTo(
              "berth: no cluster 'x' on any of the 2 servers; 'berth clusters' lists them\n");
    }
    assertThat(text(out)).isEmpty();
  }

  @Test
  void aClusterCommandNeedsAVerb() {
    assertThat(CommandRunner.run(new BerthCommand(), "cluster")).isEqualTo(125);
    assertThat(text(err))
        .startsWith("berth cluster: missing command; see 'berth cluster --help'\n");
  }

  @Test
  void cancelEndsAllThatWereNamedAndWaitsForTheirEnd() throws Exception {
    SampleStatus other = new SampleStatus("cluster-77", "cifar", "worker:0").waits("no room");
    gpu01.clusters.put(mnist.formed().runs("worker:0", "worker:1", "ps:0").build());
    gpu02.clusters.put(other.build());
    gpu02.clusters.onCancel =
        request ->
            gpu02.clusters.put(
                other.decided(CLUSTER_OUTCOME_CANCELLED, "by me", 125).over().build());
    CompletableFuture<Integer> exitCode =
        begin("cluster", "cancel", "-f", "mnist", "nothing", "cifar");
    CancelClusterRequest asked =
        CancelClusterRequest.newBuilder()
            .setClusterId("cluster-5f2a")
            .setBy(ThisUser.owner())
            .setForce(true)
            .build();
    assertThat(gpu01.clusters.cancelled.take()).isEqualTo(asked);
    assertThat(gpu02.clusters.cancelled.take().getClusterId()).isEqualTo("cluster-77");
    gpu01.clusters.watched.take();
    gpu01.clusters.put(mnist.phase(CLUSTER_PHASE_STOPPING).finished("worker:0", 143).build());
    assertThat(exitCode).isNotDone();
    gpu01.clusters.put(mnist.decided(CLUSTER_OUTCOME_CANCELLED, "by me", 125).over().build());

    assertThat(exitCode.join()).isEqualTo(125);
    assertThat(text(err))
        .isEqualTo(
            """
            berth: mnist is being stopped: 3 tasks run
            berth: mnist is being stopped: 2 tasks run
            berth: mnist (cluster-5f2a) has ended: cancelled
            berth: cifar (cluster-77) has ended: cancelled
            berth: no cluster 'nothing' on any of the 2 servers; 'berth clusters' lists them
            """);
  }

  @Test
  void cancelNeedNotWait() {
    gpu01.clusters.put(mnist.waits("no room").build());

    assertThat(berth("cluster", "cancel", "--no-wait", "mnist")).isZero();
    assertThat(gpu01.clusters.cancelled).hasSize(1).noneMatch(CancelClusterRequest::getForce);
    assertThat(text(err)).isEqualTo("berth: mnist (cluster-5f2a) is being stopped\n");
    gpu01.clusters.put(mnist.over().build());
    err.reset();
    assertThat(berth("cluster", "cancel", "mnist")).isEqualTo(125);
    assertThat(text(err)).isEqualTo("berth: mnist has ended\n");
  }

  @Test
  void logsAreWhatAllAttemptsPrintedOnAllServers() {
    mnist.formed().runs("worker:0", "worker:1", "ps:0").finished("worker:1", 1).again("worker:1");
    gpu01.clusters.put(mnist.runs("worker:1").build());
    logs(RunView.Detail.QUIET, false);

    assertThat(text(out).lines())
        .containsExactlyInAnyOrder(
            "[worker:0] run-worker-0-1",
            "[worker:1] run-worker-1-1",
            "[worker:1] run-worker-1-2",
            "[ps:0]     run-ps-0-1")
        .containsSubsequence("[worker:1] run-worker-1-1", "[worker:1] run-worker-1-2");
    assertThat(text(err)).isEmpty();
  }

  @Test
  void logsOfSomeTasksAreOfNoOthers() {
    gpu01.clusters.put(mnist.formed().runs("worker:0", "worker:1", "ps:0").build());
    logs(RunView.Detail.QUIET, false, "ps", "worker:0");

    assertThat(text(out).lines())
        .containsExactlyInAnyOrder("[worker:0] run-worker-0-1", "[ps:0]     run-ps-0-1");
  }

  @Test
  void logsAsJsonTellTheAttemptsApart() {
    mnist.formed().runs("worker:1").finished("worker:1", 1).again("worker:1").runs("worker:1");
    gpu01.clusters.put(mnist.build());
    logs(RunView.Detail.JSON, false, "worker:1");

    assertThat(text(out))
        .isEqualTo(
            """
            {"event":"started","task":"worker:1","server":"gpu01","run":"run-worker-1-1","gpus":[]}
            {"event":"output","task":"worker:1","stream":"stdout","data":"run-worker-1-1"}
            {"event":"ended","task":"worker:1","server":"gpu01","run":"run-worker-1-1","attempt":1,\
            "end":"FINISHED","exitCode":1,"why":"exit code 1","seconds":1.0}
            {"event":"restarting","task":"worker:1","attempt":2,"pauseSeconds":0.0,\
            "why":"exit code 1"}
            {"event":"started","task":"worker:1","server":"gpu01","run":"run-worker-1-2","gpus":[]}
            {"event":"output","task":"worker:1","stream":"stdout","data":"run-worker-1-2"}
            """);
  }

  @Test
  void logsThatAreMissingAreNamed() {
    mnist.at("gpu01", new Address("127.0.0.1", 1)).formed().runs("worker:0", "worker:1");
    gpu01.clusters.put(mnist.build());
    logs(RunView.Detail.QUIET, false);

    assertThat(text(out)).isEqualTo("[worker:0] run-worker-0-1\n");
    assertThat(text(err))
        .isEqualTo(
            "berth: the output of worker:1 (attempt 1, run-worker-1-1 on gpu01) cannot be read: no"
                + " berthd at 127.0.0.1:1: Connection refused\n");
  }

  @Test
  void logsAreFollowedUntilTheClusterHasEnded() throws Exception {
    gpu01.clusters.put(mnist.formed().runs("worker:1").build());
    CompletableFuture<Void> followed =
        CompletableFuture.runAsync(() -> logs(RunView.Detail.QUIET, true));
    gpu01.clusters.watched.take();
    gpu01.clusters.put(mnist.finished("worker:1", 1).again("worker:1").runs("worker:1").build());
    gpu01.clusters.put(mnist.finished("worker:1", 0).note("not part of it").over().build());
    followed.join();

    assertThat(text(out)).isEqualTo("[worker:1] run-worker-1-1\n[worker:1] run-worker-1-2\n");
    assertThat(text(err)).isEmpty();
  }

  @Test
  void aTaskThatTheClusterDoesNotHaveIsRefused() {
    assertThatThrownBy(() -> ClusterLogsCommand.wanted(mnist.build(), List.of("ps", "chief")))
        .hasMessage("mnist has no task 'chief'; it has worker:0, worker:1, ps:0");
    assertThatThrownBy(
            () ->
                ClusterLogsCommand.wanted(
                    new SampleStatus("c", "new").build(), List.of("worker:1")))
        .hasMessage("new has no task 'worker:1': it has not begun yet");
    SampleStatus big = new SampleStatus("c", "big", "chief:0");
    for (int i = 0; i < 30; i++) {
      big.builder().addTasksBuilder().setType("worker").setIndex(i);
    }
    assertThatThrownBy(() -> ClusterLogsCommand.wanted(big.build(), List.of("worker:30")))
        .hasMessage("big has no task 'worker:30'; it has chief:0, worker:0 to worker:29");
  }

  @Test
  void attachShowsAClusterAsIfItWereRunHere() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = new LinkedBlockingQueue<>();
    first.runs =
        ListRunsResponse.newBuilder()
            .addRuns(Run.newBuilder().setRunId("run-worker-0-1").setOutputBytes(100))
            .build();
    first.onAttach =
        (request, stream) -> {
          FakeRuns.send(stream, FakeRuns.accepted(), FakeRuns.started());
          running.add(stream);
        };
    SampleStatus mnist =
        new SampleStatus("cluster-5f2a", "mnist", "worker:0").at("gpu00", first.address());
    mnist.formed().runs("worker:0").phase(CLUSTER_PHASE_RUNNING);
    gpu01.clusters.put(mnist.build());
    CompletableFuture<Integer> exitCode = attached(RunView.Detail.ALL);
    StreamObserver<RunEvent> worker = running.take();
    gpu01.clusters.watched.take();
    FakeRuns.send(worker, FakeRuns.output(100, "epoch 7\n"));

    gpu01.stop();
    gpu01.clusters.put(mnist.note("it goes on without berthd").build());
    FakeRuns.end(worker, FakeRuns.output(108, "killed"), FakeRuns.finished());
    gpu01.start();
    gpu01.clusters.watched.take();
    gpu01.clusters.put(
        mnist
            .finished("worker:0", 137)
            .decided(CLUSTER_OUTCOME_FAILED, "worker:0 on gpu00 ended with exit code 137", 137)
            .over()
            .build());

    assertThat(exitCode.join()).isEqualTo(137);
    assertThat(text(out)).isEqualTo("[worker:0] epoch 7\n[worker:0] killed\n");
    assertThat(text(err).lines())
        .containsSubsequence(
            "TASK      SERVER  GPUS  ADDRESS",
            "worker:0  gpu00   0     10.0.0.0:20001",
            "berth: gpu01 stops; trying again",
            "berth: gpu01 is back",
            "berth: it goes on without berthd",
            "berth: worker:0 failed: exit code 137",
            "TASK      SERVER  RUN             EXIT  TIME  WHY",
            "worker:0  gpu00   run-worker-0-1  137   3s    exit code 137",
            "berth: mnist failed after 8s: worker:0 on gpu00 ended with exit code 137")
        .contains("berth: the task runs", "berth: worker:0 runs on gpu00 (run-worker-0-1)")
        .hasSize(11);
  }

  @Test
  void attachToOneThatHasEndedSaysHow() {
    mnist.formed().runs("worker:0").finished("worker:0", 0);
    gpu01.clusters.put(mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over().build());

    assertThat(attached(RunView.Detail.ALL).join()).isZero();
    assertThat(text(out)).isEmpty();
    assertThat(text(err))
        .isEqualTo(
            """
            TASK      SERVER  RUN             EXIT  TIME  WHY
            worker:0  gpu00   run-worker-0-1  0     1s    finished
            worker:1  -       -               -     -     never started
            ps:0      -       -               -     -     never started
            berth: mnist succeeded after 6s
            """);
  }

  @Test
  void oneThatNeverStartedHasNoTableOfTasks() {
    mnist.waits("no room").decided(CLUSTER_OUTCOME_FAILED, "no room within 1 m", 125);
    gpu01.clusters.put(mnist.over().build());

    assertThat(attached(RunView.Detail.ALL).join()).isEqualTo(125);
    assertThat(text(err)).isEqualTo("berth: mnist failed after 3s: no room within 1 m\n");
  }

  @Test
  void attachEndsWhenNobodyReads() {
    gpu01.clusters.put(mnist.formed().accepted("worker:0").build());
    OutputStream gone =
        new OutputStream() {
          @Override
          public void write(int b) throws IOException {
            throw new IOException("Broken pipe");
          }
        };
    try (Servers servers = Servers.given(List.of(gpu01.address()));
        FoundCluster found = FoundCluster.find(servers, "mnist")) {
      ClusterView view =
          new ClusterView(
              new ClusterView.Shown(gone, PIPE),
              new ClusterView.Shown(err, PIPE),
              RunView.Detail.QUIET,
              ClusterStates.gpuCounts(found.cluster()));
      first.runs =
          ListRunsResponse.newBuilder()
              .addRuns(Run.newBuilder().setRunId("run-worker-0-1"))
              .build();
      first.onAttach =
          (request, stream) ->
              FakeRuns.send(
                  stream, FakeRuns.accepted(), FakeRuns.started(), FakeRuns.output(0, "x\n"));

      assertThatThrownBy(() -> ClusterAttachCommand.follow(found, view))
          .isInstanceOf(UncheckedIOException.class)
          .hasRootCauseMessage("Broken pipe");
    }
  }

  private CompletableFuture<Integer> attached(RunView.Detail detail) {
    return CompletableFuture.supplyAsync(
        () -> {
          try (Servers servers = Servers.given(List.of(gpu01.address()));
              FoundCluster found = FoundCluster.find(servers, "mnist")) {
            return ClusterAttachCommand.follow(found, view(detail, found));
          }
        });
  }

  private void logs(RunView.Detail detail, boolean follow, String... tasks) {
    try (Servers servers = Servers.given(List.of(gpu01.address()));
        FoundCluster found = FoundCluster.find(servers, "mnist")) {
      ClusterLogsCommand.print(
          found,
          ClusterLogsCommand.wanted(found.cluster(), List.of(tasks)),
          follow,
          view(detail, found));
    }
  }

  private ClusterView view(RunView.Detail detail, FoundCluster found) {
    return new ClusterView(
        new ClusterView.Shown(out, PIPE),
        new ClusterView.Shown(err, PIPE),
        detail,
        ClusterStates.gpuCounts(found.cluster()));
  }

  private CompletableFuture<Integer> begin(String... words) {
    return CompletableFuture.supplyAsync(() -> berth(words));
  }

  private int berth(String... words) {
    return CommandRunner.run(
        new BerthCommand(),
        Stream.concat(Stream.of(words), Stream.of("--registry", registry.address().toString()))
            .toArray(String[]::new));
  }

  private ClusterStatus known() {
    return mnist.build().toBuilder().setServer("gpu01").build();
  }

  private static void printItsName(AttachRunRequest request, StreamObserver<RunEvent> run) {
    FakeRuns.end(
        run,
        FakeRuns.accepted(),
        FakeRuns.started(),
        FakeRuns.output(0, request.getRunId()),
        FakeRuns.finished());
  }

  private static ClusterStatus submitted(String name, int seconds) {
    return new SampleStatus("cluster-" + name, name, "worker:0")
        .builder()
        .setSubmittedAt(Messages.timestamp(SampleStatus.SUBMITTED.plusSeconds(seconds)))
        .build();
  }

  private static ClusterStatus parsed(String json) {
    try {
      ClusterStatus.Builder status = ClusterStatus.newBuilder();
      JsonFormat.parser().merge(json, status);
      return status.build();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String text(ByteArrayOutputStream stream) {
    return stream.toString(StandardCharsets.UTF_8);
  }
}
