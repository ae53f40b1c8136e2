package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.fake.FakeRegistry;
import berth.fake.FakeServer;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Ahead;
import berth.v1.AwaitTurnResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Clusters whose servers say something else than the registry does. */
@Timeout(60)
class FormingTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final BerthException FULL =
      new BerthException(Reason.EXHAUSTED, "1 GPU asked, 0 are free");
  private static final BerthException NEVER_WILL =
      new BerthException(Reason.INVALID, "1 GPU asked, this server has none");

  private final FakeGroup group = new FakeGroup();
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

  private static BerthException because(BerthException e, Reason reason) {
    assertThat(e.reason()).isEqualTo(reason);
    return e;
  }

  @Test
  void whatOneServerRefusesAnotherGives() {
    group.givingTurns();
    FakeServer full = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    full.refusal = FULL;
    FakeServer wrong = group.server("b", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    wrong.refusal = NEVER_WILL;
    group.server("c", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);

    try (Cluster cluster = group.start(workers(1), events::add)) {
      cluster.formed().join();
      assertThat(events.get(0))
          .isInstanceOfSatisfying(
              ClusterEvent.Formed.class,
              formed -> assertThat(formed.plan().byServer()).containsOnlyKeys("c"));
    }
    assertThat(full.asked).hasSize(1);
    assertThat(wrong.asked).hasSize(1);
  }

  @Test
  void whatAServerNeverWillGiveIsNotWaitedFor() {
    group.givingTurns();
    FakeServer good = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    group.server("b", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE).refusal = NEVER_WILL;

    try (Cluster cluster = group.start(workers(2), events::add)) {
      assertThatThrownBy(cluster::await)
          .isInstanceOfSatisfying(BerthException.class, e -> because(e, Reason.INVALID))
          .hasMessage("b has nothing for worker:1: 1 GPU asked, this server has none");
    }
    assertThat(good.held()).isZero();
  }

  @Test
  void whatIsFullAfterAllIsWaitedFor() {
    group.givingTurns();
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    server.refusal = FULL;

    try (Cluster cluster = group.start(workers(1), events::add)) {
      await().atMost(PATIENCE).until(() -> !events.isEmpty());
      assertThat(events.get(0))
          .isEqualTo(
              new ClusterEvent.Waiting("a has nothing for worker:0: 1 GPU asked, 0 are free"));
      server.refusal = null;
      cluster.formed().join();
    }
    assertThat(server.held()).isZero();
  }

  @Test
  void serversThatRefuseSlowlyAreNotAskedForEver() {
    group.givingTurns();
    // Longer than a server rests that has refused.
    Duration slow = Duration.ofMillis(350);
    group.server("a", slow, FakeGroup.AT_ONCE).refusal = FULL;
    group.server("b", slow, FakeGroup.AT_ONCE).refusal = FULL;

    try (Cluster cluster = group.start(workers(1).waitAtMost(Duration.ZERO), events::add)) {
      assertThatThrownBy(() -> cluster.ended().get(PATIENCE.toSeconds(), TimeUnit.SECONDS))
          .cause()
          .isInstanceOfSatisfying(BerthException.class, e -> because(e, Reason.EXHAUSTED))
          .hasMessage("b has nothing for worker:0: 1 GPU asked, 0 are free");
    }
  }

  @Tag("slow")
  @Test
  void nothingIsHeldWhileAServerThatDoesNotAnswerIsAskedAgain() {
    group.givingTurns();
    FakeServer good = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    FakeServer silent = group.server("b", FakeGroup.NEVER, FakeGroup.AT_ONCE);

    try (Cluster cluster = group.start(workers(2).waitAtMost(Duration.ZERO), events::add)) {
      await().atMost(PATIENCE).until(() -> silent.asked.size() == 2);
      assertThat(good.held()).isZero();
      // The answer may have been lost: then the same id finds what is held.
      assertThat(silent.asked.get(1)).isEqualTo(silent.asked.get(0));
      assertThatThrownBy(cluster::await)
          .isInstanceOfSatisfying(BerthException.class, e -> because(e, Reason.EXHAUSTED))
          .hasMessageStartingWith("b has nothing for worker:1: berthd at ");
    }
  }

  @Test
  void aServerThatIsAwayForAWhileIsWaitedFor() {
    group.givingTurns();
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    group.knows(FakeRegistry.server("a", server.address(), 0, 1));

    try (Cluster cluster = group.start(workers(1), events::add)) {
      await().atMost(PATIENCE).until(() -> events.size() == 1);
      group.tellGone("a");
      await().atMost(PATIENCE).until(() -> events.size() == 2);
      assertThat(events.get(1)).asString().contains("no server is registered");

      group.tell(FakeRegistry.server("a", server.address(), 1, 1));

      cluster.formed().join();
    }
  }

  @Test
  void whoWaitsForAServerThatIsAwayStandsInNobodysWay() throws InterruptedException {
    FakeServer server = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    group.knows(FakeRegistry.server("a", server.address(), 0, 1));

    try (Cluster cluster = group.start(workers(1), events::add)) {
      FakeRegistry.Waiting first = group.registry.waiting.take();
      first.stream().onNext(AwaitTurnResponse.newBuilder().setTurn(true).build());
      await().atMost(PATIENCE).until(() -> events.size() == 1);
      group.tellGone("a");
      await().atMost(PATIENCE).until(() -> first.stream().isCancelled());
      assertThat(group.registry.waiting).isEmpty();

      group.tell(FakeRegistry.server("a", server.address(), 1, 1));

      FakeRegistry.Waiting second = group.registry.waiting.take();
      assertThat(second.request().getServersList()).containsExactly("a");
      assertThat(Messages.duration(second.request().getWaited())).isPositive();
      second.stream().onNext(AwaitTurnResponse.newBuilder().setTurn(true).build());
      cluster.formed().join();
    }
  }

  @Test
  void aTurnThatComesTooLateIsGivenBack() throws InterruptedException {
    group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    Semaphore told = new Semaphore(0);
    CompletableFuture<Thread> listening = new CompletableFuture<>();

    try (Cluster cluster =
        group.start(
            workers(1).waitAtMost(Duration.ofMillis(500)),
            event -> {
              listening.complete(Thread.currentThread());
              told.acquireUninterruptibly();
              // As somebody who catches all exceptions.
              Thread.interrupted();
            })) {
      FakeRegistry.Waiting place = group.registry.waiting.take();
      place.stream().onNext(AwaitTurnResponse.newBuilder().setAhead(ahead()).build());
      listening.join();
      place.stream().onNext(AwaitTurnResponse.newBuilder().setTurn(true).build());
      assertThatThrownBy(cluster::await).hasMessageStartingWith("waited 0 s for room");
      told.release();

      await().atMost(PATIENCE).until(() -> place.stream().isCancelled());
    }
  }

  private static Ahead ahead() {
    return Ahead.newBuilder().setCount(1).build();
  }
}
