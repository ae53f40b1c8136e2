package berth.client.cluster;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_FAILED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_RUNNING;
import static berth.v1.TaskEnd.TASK_END_SERVER_LOST;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.ClusterClient;
import berth.client.call.ServerConnection;
import berth.fake.FakeRuns;
import berth.fake.FakeServer;
import berth.fake.SampleStatus;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.ClusterStatus;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.RunEvent;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A supervised cluster of two workers, each with a server of its own, and those who look at it. */
@Timeout(60)
class ClusterWatchTest {
  private static final String ID = "cluster-5f2a";

  private final FakeServer supervisor = new FakeServer("gpu09");
  private final FakeRuns gpu00 = new FakeRuns();
  private final FakeRuns gpu01 = new FakeRuns();
  private final ClusterClient client = ClusterClient.of(supervisor.address());
  private final SampleStatus mnist =
      new SampleStatus(ID, "mnist", "worker:0", "worker:1")
          .at("gpu00", gpu00.address())
          .at("gpu01", gpu01.address());
  private final BlockingQueue<String> told = new LinkedBlockingQueue<>();
  private final AtomicInteger telling = new AtomicInteger();
  private final List<Address> connected = new ArrayList<>();
  private final ClusterWatch watch =
      new ClusterWatch(
          client,
          ID,
          address -> {
            synchronized (connected) {
              connected.add(address);
            }
            return new ServerConnection(address);
          },
          this::hear);

  @BeforeEach
  void printTheirNames() {
    gpu00.onAttach = ClusterWatchTest::printsItsName;
    gpu01.onAttach = ClusterWatchTest::printsItsName;
  }

  @AfterEach
  void close() {
    watch.close();
    client.close();
    supervisor.close();
    gpu00.close();
    gpu01.close();
  }

  private void hear(ClusterEvent event) {
    assertThat(telling.incrementAndGet()).isEqualTo(1);
    told.add(words(event));
    telling.decrementAndGet();
  }

  private static void printsItsName(AttachRunRequest request, StreamObserver<RunEvent> run) {
    String text = request.getRunId() + "\n";
    int from = (int) request.getFromOffset();
    FakeRuns.end(
        run,
        accepted(request),
        FakeRuns.started(),
        FakeRuns.output(from, text.substring(from)),
        FakeRuns.finished());
  }

  private static RunEvent accepted(AttachRunRequest request) {
    RunEvent.Builder event = FakeRuns.accepted().toBuilder();
    event.getAcceptedBuilder().setRunId(request.getRunId());
    return event.build();
  }

  /** Has a server tell of runs what the test says, over the streams that are returned. */
  private static BlockingQueue<StreamObserver<RunEvent>> speaking(FakeRuns server) {
    BlockingQueue<StreamObserver<RunEvent>> streams = new LinkedBlockingQueue<>();
    server.onAttach =
        (request, stream) -> {
          FakeRuns.send(stream, accepted(request), FakeRuns.started());
          streams.add(stream);
        };
    return streams;
  }

  @Test
  void readsAllAttemptsOfATaskInTheirOrder() {
    mnist.formed().runs("worker:0", "worker:1").finished("worker:1", 1).again("worker:1");
    mnist.runs("worker:1").finished("worker:1", 2).again("worker:1").runs("worker:1");
    put(mnist);

    assertThat(watch.read(task -> task.index() == 1)).isEqualTo(known());
    assertThat(told)
        .containsExactly(
            "worker:1 runs: run-worker-1-1",
            "worker:1: run-worker-1-1\n",
            "worker:1 ended: exit code 1",
            "worker:1 again: exit code 1",
            "worker:1 runs: run-worker-1-2",
            "worker:1: run-worker-1-2\n",
            "worker:1 ended: exit code 2",
            "worker:1 again: exit code 2",
            "worker:1 runs: run-worker-1-3",
            "worker:1: run-worker-1-3\n");
    assertThat(gpu01.attached).hasSize(3).allMatch(AttachRunRequest::getNoFollow);
    assertThat(gpu00.attached).isEmpty();
    assertThat(connected).containsExactly(gpu01.address());
  }

  @Test
  void whatCannotBeReadIsNamedAndTheOthersGoOn() {
    mnist.at("gpu01", new Address("127.0.0.1", 1)).formed().runs("worker:0", "worker:1");
    mnist.finished("worker:0", 1).again("worker:0").runs("worker:0");
    gpu00.onAttach =
        (request, run) -> {
          if (request.getRunId().endsWith("1")) {
            FakeRuns.fail(run, Reason.NOT_FOUND, "there is no run " + request.getRunId());
          } else {
            printsItsName(request, run);
          }
        };
    put(mnist);
    watch.read(task -> true);

    assertThat(told.stream().filter(word -> word.contains("worker:0")))
        .containsExactly(
            "worker:0 runs: run-worker-0-1",
            "note: the output of worker:0 (attempt 1, run-worker-0-1 on gpu00) cannot be read:"
                + " there is no run run-worker-0-1",
            "worker:0 ended: exit code 1",
            "worker:0 again: exit code 1",
            "worker:0 runs: run-worker-0-2",
            "worker:0: run-worker-0-2\n");
    assertThat(told.stream().filter(word -> word.contains("worker:1")))
        .containsExactly(
            "worker:1 runs: run-worker-1-1",
            "note: the output of worker:1 (attempt 1, run-worker-1-1 on gpu01) cannot be read: no"
                + " berthd at 127.0.0.1:1: Connection refused");
  }

  @Test
  void followsNewAttemptsUntilTheClusterHasEnded() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu01);
    mnist.formed().runs("worker:0", "worker:1").note("of no interest here");
    put(mnist);
    CompletableFuture<?> followed = begin(w -> w.follow(task -> task.index() == 1));
    StreamObserver<RunEvent> first = running.take();
    expect("worker:1 runs: run-worker-1-1");
    FakeRuns.send(first, FakeRuns.output(0, "a\n"));
    expect("worker:1: a\n");

    put(mnist.finished("worker:1", 1).again("worker:1").runs("worker:1"));
    FakeRuns.end(first, FakeRuns.output(2, "b\n"), FakeRuns.finished());
    expect("worker:1: b\n");
    expect("worker:1 ended: exit code 1");
    expect("worker:1 again: exit code 1");
    expect("worker:1 runs: run-worker-1-2");
    StreamObserver<RunEvent> second = running.take();
    put(mnist.finished("worker:1", 0).decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over());
    FakeRuns.end(second, FakeRuns.output(0, "c\n"), FakeRuns.finished());

    assertThat(followed.join()).isEqualTo(known());
    assertThat(told).containsExactly("worker:1: c\n", "worker:1 ended: finished");
    assertThat(gpu01.attached).hasSize(2).noneMatch(AttachRunRequest::getNoFollow);
  }

  @Test
  void whoAttachesHearsWhatIsPrintedFromNowOn() throws Exception {
    mnist.formed().runs("worker:0", "worker:1").finished("worker:1", 1);
    put(mnist.phase(CLUSTER_PHASE_RUNNING));
    printedBefore(gpu00, "run-worker-0-1", 11);
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu00);
    CompletableFuture<?> attached = begin(ClusterWatch::attach);
    expect("formed on gpu00, gpu01");
    expect("worker:0 runs: run-worker-0-1");
    expect("all run");
    FakeRuns.send(running.take(), FakeRuns.output(11, "now\n"));
    expect("worker:0: now\n");
    assertThat(gpu00.attached.get(0).getFromOffset()).isEqualTo(11);
    assertThat(gpu01.attached).isEmpty();

    put(mnist.again("worker:1").note("it goes on"));
    expect("worker:1 again: exit code 1");
    expect("note: it goes on");
    put(mnist.runs("worker:1"));
    expect("worker:1 runs: run-worker-1-2");
    expect("worker:1: run-worker-1-2\n");
    assertThat(attached).isNotDone();
  }

  @Test
  void theStartOfATaskIsToldBeforeItsOutputWhoeverHasItFirst() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu01);
    put(mnist.formed());
    begin(ClusterWatch::attach);
    expect("formed on gpu00, gpu01");
    put(mnist.accepted("worker:1"));
    FakeRuns.send(running.take(), FakeRuns.output(0, "early\n"));
    expect("worker:1 runs: run-worker-1-1");
    expect("worker:1: early\n");

    put(mnist.started("worker:1").note("now its supervisor knows it too"));
    expect("note: now its supervisor knows it too");
  }

  @Test
  void theEndOfAnAttemptIsToldAfterAllThatItPrinted() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu01);
    put(mnist.formed().runs("worker:1"));
    begin(w -> w.follow(task -> true));
    expect("worker:1 runs: run-worker-1-1");
    put(mnist.finished("worker:1", 3));
    // This one is heard of later, and told before.
    put(mnist.runs("worker:0").finished("worker:0", 0));
    expect("worker:0 runs: run-worker-0-1");
    expect("worker:0: run-worker-0-1\n");
    expect("worker:0 ended: finished");
    FakeRuns.end(running.take(), FakeRuns.output(0, "last words\n"), FakeRuns.finished());

    expect("worker:1: last words\n");
    expect("worker:1 ended: exit code 3");
  }

  @Test
  void aSupervisingServerThatIsRestartedIsWaitedForAndNothingIsToldTwice() throws Exception {
    put(mnist.formed().runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING).note("old"));
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu00);
    gpu01.onAttach = gpu00.onAttach;
    CompletableFuture<?> attached = begin(w -> w.follow(task -> task.index() == 0));
    StreamObserver<RunEvent> run = running.take();
    expect("worker:0 runs: run-worker-0-1");
    supervisor.clusters.watched.take();

    supervisor.stop();
    expect("note: gpu09 stops; trying again");
    FakeRuns.send(run, FakeRuns.output(0, "meanwhile\n"));
    expect("worker:0: meanwhile\n");
    supervisor.clusters.put(mnist.finished("worker:0", 0).build());
    supervisor.start();
    expect("note: gpu09 is back");
    FakeRuns.end(run, FakeRuns.finished());
    expect("worker:0 ended: finished");
    put(mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over());

    assertThat(attached.join()).isEqualTo(known());
    assertThat(told).isEmpty();
  }

  @Test
  void theServerOfATaskMayBeAwayWhileTheTaskRuns() throws Exception {
    gpu00.onAttach = (request, run) -> FakeRuns.fail(run, Reason.UNAVAILABLE, "gpu00 stops");
    put(mnist.formed().runs("worker:0"));
    begin(w -> w.follow(task -> true));
    expect("worker:0 runs: run-worker-0-1");
    expect(
        "note: the output of worker:0 (attempt 1, run-worker-0-1 on gpu00) cannot be read: gpu00"
            + " stops; trying again");
    gpu00.onAttach = ClusterWatchTest::printsItsName;

    expect("worker:0: run-worker-0-1\n");
  }

  @Test
  void aServerThatIsLostHoldsNobodyUpForLong() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu00);
    put(mnist.formed().runs("worker:0"));
    CompletableFuture<?> followed = begin(w -> w.follow(task -> true));
    expect("worker:0 runs: run-worker-0-1");
    FakeRuns.send(running.take(), FakeRuns.output(0, "half a li"));
    expect("worker:0: half a li");
    put(mnist.ended("worker:0", TASK_END_SERVER_LOST, "gpu00 is lost"));

    expect(
        "note: the output of worker:0 (attempt 1, run-worker-0-1 on gpu00) cannot be read any"
            + " further: its server is lost");
    expect("worker:0 ended: gpu00 is lost");
    put(mnist.decided(CLUSTER_OUTCOME_FAILED, "gpu00 is lost", 125).over());
    assertThat(followed.join()).isEqualTo(known());
  }

  @Test
  void oneThatHasEndedHasNothingToTellToThoseWhoAttach() {
    mnist.formed().runs("worker:0", "worker:1").finished("worker:0", 0).finished("worker:1", 0);
    put(mnist.note("x").decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over());

    assertThat(watch.attach()).isEqualTo(known());
    assertThat(told).isEmpty();
  }

  @Test
  void whatAListenerThrowsEndsIt() {
    IllegalStateException unexpected = new IllegalStateException("no");
    put(mnist.formed().runs("worker:0"));
    try (ClusterWatch broken =
        new ClusterWatch(
            client,
            ID,
            ServerConnection::new,
            event -> {
              throw unexpected;
            })) {
      assertThatThrownBy(broken::attach).isSameAs(unexpected);
    }
  }

  @Test
  void aClusterThatIsNotThereCannotBeWatched() {
    assertThatThrownBy(watch::attach).hasMessage("there is no cluster " + ID);
  }

  @Test
  void closingItEndsItWhereverItIs() throws Exception {
    BlockingQueue<StreamObserver<RunEvent>> running = speaking(gpu00);
    put(mnist.formed().runs("worker:0"));
    CompletableFuture<?> attached = begin(w -> w.follow(task -> true));
    running.take();
    watch.close();

    assertThatThrownBy(attached::join)
        .cause()
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CANCELLED));
  }

  private CompletableFuture<ClusterStatus> begin(Function<ClusterWatch, ClusterStatus> work) {
    return CompletableFuture.supplyAsync(() -> work.apply(watch));
  }

  private static void printedBefore(FakeRuns server, String runId, long bytes) {
    server.runs =
        ListRunsResponse.newBuilder()
            .addRuns(Run.newBuilder().setRunId(runId).setOutputBytes(bytes))
            .build();
  }

  private void put(SampleStatus status) {
    supervisor.clusters.put(status.build());
  }

  /** How the supervising server says that the cluster is. */
  private ClusterStatus known() {
    return mnist.build().toBuilder().setServer("gpu09").build();
  }

  private void expect(String word) throws InterruptedException {
    assertThat(told()).isEqualTo(word);
  }

  private String told() throws InterruptedException {
    return told.poll(20, TimeUnit.SECONDS);
  }

  private static String words(ClusterEvent event) {
    if (event instanceof ClusterEvent.Output output) {
      return output.task() + ": " + new String(output.data(), StandardCharsets.UTF_8);
    } else if (event instanceof ClusterEvent.Started started) {
      return started.task() + " runs: " + started.runId();
    } else if (event instanceof ClusterEvent.Ended ended) {
      return ended.result().task() + " ended: " + ended.result().why();
    } else if (event instanceof ClusterEvent.Restarting again) {
      return again.task() + " again: " + again.why();
    } else if (event instanceof ClusterEvent.Formed formed) {
      return "formed on " + String.join(", ", formed.plan().byServer().keySet());
    } else if (event instanceof ClusterEvent.AllStarted) {
      return "all run";
    } else if (event instanceof ClusterEvent.Note note) {
      return "note: " + note.text();
    }
    return event.toString();
  }
}
