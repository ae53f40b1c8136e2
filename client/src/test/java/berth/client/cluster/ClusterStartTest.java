package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.fake.FakeServer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What becomes of clusters whose servers, tasks or listeners do not do what they should. */
@Timeout(60)
class ClusterStartTest {
  private static final Duration SHORT = Duration.ofSeconds(1);
  private static final long PATIENCE_SECONDS = 30;

  private final FakeGroup group = new FakeGroup().givingTurns();
  private final List<ClusterEvent> events = new CopyOnWriteArrayList<>();

  @AfterEach
  void close() {
    group.close();
  }

  private static ClusterRequest.Builder workers(int count) {
    return ClusterRequest.named("test")
        .all(task -> task.command("true"))
        .task("worker", count, worker -> worker.gpus(1));
  }

  private static <T> T within(CompletableFuture<T> future) throws Exception {
    return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  @Test
  void aTaskThatDoesNotStartInTimeIsNamed() {
    FakeServer good = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    FakeServer slow = group.server("b", FakeGroup.AT_ONCE, FakeGroup.NEVER);

    try (Cluster cluster = group.start(workers(2).startTimeout(SHORT), events::add)) {
      ClusterResult result = cluster.await();

      assertThat(result.outcome()).isEqualTo(Outcome.FAILED);
      assertThat(result.why())
          .isEqualTo("after 1 s there is no worker:1 on b (its server prepares it)");
      assertThat(result.exitCode()).isEqualTo(125);
      assertThat(result.tasks())
          .extracting(TaskResult::end)
          .containsExactly(End.CANCELLED, End.CANCELLED);
    }
    assertThat(good.held()).isZero();
    assertThat(slow.held()).isZero();
  }

  @Test
  void aTensorBoardThatCannotStartDoesNotEndTheTraining() throws Exception {
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    server.unstartable = request -> request.getName().startsWith("tensorboard");

    try (Cluster cluster =
        group.start(
            workers(1).task("tensorboard", 1, task -> {}).startTimeout(SHORT), events::add)) {
      within(cluster.started());
    }
    assertThat(events).anyMatch(ClusterEvent.AllStarted.class::isInstance);
  }

  @Test
  void aServerThatIsAwayWhenItsTaskIsStoppedIsAskedAgain() throws Exception {
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    try (Cluster cluster = group.start(workers(1), events::add)) {
      within(cluster.started());
      server.failingCancels.set(2);

      cluster.stop();

      assertThat(within(cluster.ended()).outcome()).isEqualTo(Outcome.CANCELLED);
    }
    assertThat(events)
        .filteredOn(ClusterEvent.Note.class::isInstance)
        .filteredOn(note -> note.toString().contains("worker:0 cannot be stopped yet"))
        .hasSize(1);
  }

  @Test
  void isStoppedAlsoBeforeItsTasksRun() throws Exception {
    group.server("a", FakeGroup.AT_ONCE, FakeGroup.NEVER);
    try (Cluster cluster = group.start(workers(1), events::add)) {
      within(cluster.formed());
      cluster.stop();

      ClusterResult result = within(cluster.ended());
      assertThat(result.outcome()).isEqualTo(Outcome.CANCELLED);
      assertThat(result.tasks().get(0).exitCode()).isEmpty();
    }
  }

  @Test
  void anErrorOfAListenerEndsItToo() {
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    AssertionError unexpected = new AssertionError("nobody expects this");

    Cluster cluster = group.start(workers(1), throwing(ClusterEvent.Started.class, unexpected));

    assertThatThrownBy(() -> within(cluster.ended())).hasCause(unexpected);
    assertThatThrownBy(cluster::await).isSameAs(unexpected);
    assertThat(server.held()).isZero();
  }

  @Test
  void whatAListenerThrowsBeforeItIsFormedIsTold() {
    group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE).refusal =
        new berth.rpc.BerthException(berth.rpc.Reason.EXHAUSTED, "full");
    IllegalStateException failure = new IllegalStateException("nobody reads this");

    Cluster cluster = group.start(workers(1), throwing(ClusterEvent.Waiting.class, failure));

    assertThatThrownBy(() -> within(cluster.ended())).hasCause(failure);
  }

  private static Consumer<ClusterEvent> throwing(
      Class<? extends ClusterEvent> when, Throwable what) {
    return event -> {
      if (when.isInstance(event)) {
        if (what instanceof Error error) {
          throw error;
        }
        throw (RuntimeException) what;
      }
    };
  }

  @Test
  void itsListenerMayCloseIt() throws Exception {
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    CompletableFuture<Cluster> itself = new CompletableFuture<>();
    Cluster cluster =
        group.start(
            workers(1),
            event -> {
              if (event instanceof ClusterEvent.Started) {
                itself.join().close();
              }
            });
    itself.complete(cluster);

    assertThat(within(cluster.ended()).outcome()).isEqualTo(Outcome.CANCELLED);
    assertThat(server.held()).isZero();
  }

  @Test
  void whoeverIsToldOfItsStartMayCloseIt() throws Exception {
    group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    Cluster cluster = group.start(workers(1), events::add);
    cluster.started().thenRun(cluster::close);

    assertThat(within(cluster.ended()).outcome()).isEqualTo(Outcome.CANCELLED);
    cluster.close();
  }
}
