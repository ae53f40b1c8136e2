package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.fake.FakeRegistry;
import berth.fake.FakeRegistry.Waiting;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.Statuses;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import berth.v1.ServerFilter;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A client in the lines of two registries, which say what the tests want. */
class TurnTest {
  private static final Address NOBODY = new Address("127.0.0.1", 1);
  private static final Duration SOON = Duration.ofSeconds(30);
  private static final AwaitTurnRequest REQUEST =
      AwaitTurnRequest.newBuilder().addServers("gpu01").build();

  private final BlockingQueue<Integer> told = new LinkedBlockingQueue<>();
  private FakeRegistry first;
  private FakeRegistry second;
  private RegistryClient client;

  @BeforeEach
  void start() {
    List<FakeRegistry> sorted =
        Stream.of(new FakeRegistry(), new FakeRegistry())
            .sorted(Comparator.comparing(registry -> registry.address().toString()))
            .toList();
    first = sorted.get(0);
    second = sorted.get(1);
    client = RegistryClient.of(List.of(second.address(), first.address()));
  }

  @AfterEach
  void close() {
    client.close();
    first.close();
    second.close();
  }

  @Test
  void theLineIsAtTheFirstRegistryWhicheverAnsweredLast() throws Exception {
    client.listServers(ServerFilter.getDefaultInstance());
    CompletableFuture<Turn> waits = awaitTurn(REQUEST);

    Waiting waiting = next(first);
    assertThat(waiting.request()).isEqualTo(REQUEST);
    // Who has its turn is not told any more who was ahead.
    for (int ahead : List.of(2, 1)) {
      say(waiting, ahead);
      assertThat(told.poll(30, TimeUnit.SECONDS)).isEqualTo(ahead);
    }
    sayTurn(waiting);

    try (Turn turn = waits.get(30, TimeUnit.SECONDS)) {
      assertThat(turn.held()).isTrue();
      assertThat(second.waiting).isEmpty();
    }
    await().atMost(SOON).until(waiting.stream()::isCancelled);
  }

  @Test
  void aTurnIsNotHeldAnyMoreWhenItIsClosedOrItsRegistryIsLost() throws Exception {
    CompletableFuture<Turn> waits = awaitTurn(REQUEST);
    sayTurn(next(first));
    Turn closed = waits.get(30, TimeUnit.SECONDS);
    closed.close();
    closed.close();
    assertThat(closed.held()).isFalse();

    waits = awaitTurn(REQUEST);
    Waiting waiting = next(first);
    sayTurn(waiting);
    Turn lost = waits.get(30, TimeUnit.SECONDS);
    assertThat(lost.held()).isTrue();
    first.stop(waiting.stream());

    await().atMost(SOON).until(() -> !lost.held());
  }

  @Test
  void goesOnAtTheNextRegistryWithTheTimeWaitedSoFarAndComesBack() throws Exception {
    Duration before = Duration.ofSeconds(100);
    long start = System.nanoTime();
    CompletableFuture<Turn> waits =
        awaitTurn(REQUEST.toBuilder().setWaited(Messages.duration(before)).build());
    Waiting waiting = next(first);
    assertThat(waited(waiting)).isEqualTo(before);
    say(waiting, 3);
    assertThat(told.poll(30, TimeUnit.SECONDS)).isEqualTo(3);

    first.stop(waiting.stream());
    waiting = next(second);
    assertThat(waited(waiting)).isBetween(before.plusNanos(1), before.plus(since(start)));
    say(waiting, 2);
    assertThat(told.poll(30, TimeUnit.SECONDS)).isEqualTo(2);

    first.start();
    Waiting back = next(first);
    assertThat(waited(back)).isBetween(waited(waiting), before.plus(since(start)));
    await().atMost(SOON).until(waiting.stream()::isCancelled);
    sayTurn(back);
    assertThat(waits.get(30, TimeUnit.SECONDS).held()).isTrue();
  }

  @Test
  void leavesARegistryThatSaysNothingForTheNextAsSomebodyWhoHasNotWaited() throws Exception {
    CompletableFuture<Turn> waits = awaitTurn(REQUEST);
    Waiting silent = next(first);

    Waiting waiting = next(second);
    assertThat(waiting.request()).isEqualTo(REQUEST);
    sayTurn(waiting);

    assertThat(waits.get(30, TimeUnit.SECONDS).held()).isTrue();
    await().atMost(SOON).until(silent.stream()::isCancelled);
  }

  @Test
  void anInterruptLeavesTheLine() throws Exception {
    CompletableFuture<Throwable> failure = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                client.awaitTurn(REQUEST, ahead -> told.add(ahead.getCount()));
              } catch (BerthException e) {
                failure.complete(Thread.currentThread().isInterrupted() ? e : null);
              }
            });
    thread.start();
    Waiting waiting = next(first);
    say(waiting, 1);
    assertThat(told.poll(30, TimeUnit.SECONDS)).isEqualTo(1);

    thread.interrupt();

    assertThat(failure.get(30, TimeUnit.SECONDS))
        .hasMessage("interrupted while waiting for a turn")
        .extracting(e -> ((BerthException) e).reason())
        .isEqualTo(Reason.CANCELLED);
    await().atMost(SOON).until(waiting.stream()::isCancelled);
  }

  @Test
  void aListenerThatFailsLeavesTheLine() throws Exception {
    CompletableFuture<Turn> waits =
        CompletableFuture.supplyAsync(
            () ->
                client.awaitTurn(
                    REQUEST,
                    ahead -> {
                      throw new IllegalStateException("no more");
                    }));
    Waiting waiting = next(first);

    say(waiting, 1);

    assertThatThrownBy(waits::join).hasRootCauseMessage("no more");
    await().atMost(SOON).until(waiting.stream()::isCancelled);
  }

  @Test
  void closingTheClientEndsTheWait() throws Exception {
    CompletableFuture<Turn> waits = awaitTurn(REQUEST);
    say(next(first), 1);
    assertThat(told.poll(30, TimeUnit.SECONDS)).isEqualTo(1);

    client.close();

    assertThatThrownBy(() -> waits.get(30, TimeUnit.SECONDS))
        .isInstanceOf(ExecutionException.class)
        .hasMessageContaining("the client was closed");
  }

  @Test
  void whatARegistryRefusesIsNotAskedOfTheNext() throws Exception {
    CompletableFuture<Turn> waits = awaitTurn(REQUEST);

    next(first).stream()
        .onError(Statuses.toException(new BerthException(Reason.EXHAUSTED, "the line is full")));

    assertThatThrownBy(() -> waits.get(30, TimeUnit.SECONDS))
        .hasMessageContaining("the line is full");
    assertThat(second.waiting).isEmpty();
  }

  @Test
  void saysThatNoRegistryAnswers() {
    try (RegistryClient nobody = RegistryClient.of(List.of(NOBODY))) {
      assertThatThrownBy(() -> nobody.awaitTurn(REQUEST, ahead -> {}))
          .hasMessageStartingWith("no registry at 127.0.0.1:1: Connection refused; start")
          .extracting(e -> ((BerthException) e).reason())
          .isEqualTo(Reason.UNAVAILABLE);
    }
  }

  private CompletableFuture<Turn> awaitTurn(AwaitTurnRequest request) {
    return CompletableFuture.supplyAsync(
        () -> client.awaitTurn(request, ahead -> told.add(ahead.getCount())));
  }

  private static Waiting next(FakeRegistry registry) throws InterruptedException {
    Waiting waiting = registry.waiting.poll(30, TimeUnit.SECONDS);
    assertThat(waiting).isNotNull();
    return waiting;
  }

  private static void say(Waiting waiting, int ahead) {
    waiting.stream()
        .onNext(
            AwaitTurnResponse.newBuilder().setAhead(Ahead.newBuilder().setCount(ahead)).build());
  }

  private static void sayTurn(Waiting waiting) {
    waiting.stream().onNext(AwaitTurnResponse.newBuilder().setTurn(true).build());
  }

  private static Duration waited(Waiting waiting) {
    return Messages.duration(waiting.request().getWaited());
  }

  private static Duration since(long start) {
    return Duration.ofNanos(System.nanoTime() - start);
  }
}
