package berth.e2e.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.RegistryClient;
import berth.client.call.Turn;
import berth.e2e.fixture.Daemon;
import berth.rpc.Address;
import berth.rpc.Messages;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.Owner;
import java.io.BufferedReader;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Several clients in the line of a registry. */
class TurnsTest {
  private static final Duration SOON = Duration.ofSeconds(30);

  @TempDir private Path folder;
  private Daemon registry;
  private final List<Standing> standing = new ArrayList<>();

  @BeforeEach
  void start() {
    registry = startRegistry("127.0.0.1:0");
  }

  @AfterEach
  void stop() {
    standing.forEach(Standing::close);
    registry.close();
  }

  @Test
  void theSecondHasItsTurnWhenTheFirstLeavesAndWhoSharesNothingAtOnce() throws Exception {
    Standing ann = stand("ann", "gpu01", "gpu02");
    Turn turn = ann.turn();
    Standing bob = stand("bob", "gpu02", "gpu03");
    Ahead ahead = bob.ahead(1);
    assertThat(ahead.getOwner().getUser()).isEqualTo("ann");
    assertThat(ahead.getPurpose()).isEqualTo("ann's cluster");
    assertThat(Messages.instant(ahead.getSince())).isBeforeOrEqualTo(Instant.now());
    Standing eve = stand("eve", "gpu03");
    assertThat(eve.ahead(1).getOwner().getUser()).isEqualTo("bob");
    assertThat(stand("kim", "gpu04").turn().held()).isTrue();

    turn.close();

    assertThat(bob.turn().held()).isTrue();
    assertThat(turn.held()).isFalse();
    bob.close();
    assertThat(eve.turn().held()).isTrue();
  }

  @Test
  void aTurnIsTheNextOnesWhenItsProcessIsKilled() throws Exception {
    Process taker =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                TurnTaker.class.getName(),
                registry.address(),
                "gpu01")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try (BufferedReader said = taker.inputReader()) {
      String line = said.readLine();
      while (line.equals("ahead")) {
        line = said.readLine();
      }
      assertThat(line).isEqualTo("turn");
      Standing ann = stand("ann", "gpu01");
      ann.ahead(1);

      taker.destroyForcibly();

      assertThat(ann.turn().held()).isTrue();
    } finally {
      taker.destroyForcibly();
    }
  }

  @Test
  void theOrderIsTheSameAfterTheRegistryWasKilledAndStartedAgain() throws Exception {
    Turn lost = stand("ann", "gpu01").turn();
    List<Standing> others = standInOrder(address(registry), "gpu01");

    registry.kill();
    registry = startRegistry(registry.address());

    assertTurnsInOrder(others);
    await().atMost(SOON).until(() -> !lost.held());
  }

  @Test
  void theNextRegistryHasTheLineInItsOrderWhenTheFirstIsKilled() throws Exception {
    try (Daemon other = startRegistry("127.0.0.1:0")) {
      List<Address> both = address(other, registry);
      Turn lost = stand(both, Duration.ZERO, "ann", "gpu01").turn();
      List<Standing> others = standInOrder(both, "gpu01");

      Daemon first = other.address().compareTo(registry.address()) < 0 ? other : registry;
      first.kill();

      assertTurnsInOrder(others);
      await().atMost(SOON).until(() -> !lost.held());
    }
  }

  // The last of them comes first. By minutes, or the order would depend on who is how fast.
  private List<Standing> standInOrder(List<Address> registries, String server) throws Exception {
    Standing kim = stand(registries, Duration.ofMinutes(1), "kim", server);
    kim.ahead(1);
    Standing eve = stand(registries, Duration.ofMinutes(2), "eve", server);
    kim.ahead(2);
    Standing bob = stand(registries, Duration.ofMinutes(3), "bob", server);
    kim.ahead(3);
    return List.of(bob, eve, kim);
  }

  private static void assertTurnsInOrder(List<Standing> all) throws Exception {
    for (Standing next : all) {
      assertThat(next.turn().held()).isTrue();
      assertThat(all.stream().filter(Standing::hasTurn)).containsExactly(next);
      next.close();
    }
  }

  private Daemon startRegistry(String address) {
    return Daemon.start(folder, "berth-registry", "--listen", address);
  }

  private static List<Address> address(Daemon... registries) {
    return Stream.of(registries).map(daemon -> Address.parse(daemon.address(), 0)).toList();
  }

  private Standing stand(String user, String... servers) {
    return stand(address(registry), Duration.ZERO, user, servers);
  }

  private Standing stand(
      List<Address> registries, Duration waited, String user, String... servers) {
    Standing made =
        new Standing(
            RegistryClient.of(registries),
            AwaitTurnRequest.newBuilder()
                .addAllServers(List.of(servers))
                .setOwner(Owner.newBuilder().setUser(user))
                .setPurpose(user + "'s cluster")
                .setWaited(Messages.duration(waited))
                .build());
    standing.add(made);
    return made;
  }

  /** A client that stands in line, with a connection of its own. */
  private static final class Standing implements AutoCloseable {
    private final RegistryClient client;
    private final BlockingQueue<Ahead> told = new LinkedBlockingQueue<>();
    private final CompletableFuture<Turn> turn = new CompletableFuture<>();

    Standing(RegistryClient client, AwaitTurnRequest request) {
      this.client = client;
      Thread thread = new Thread(() -> await(request), request.getPurpose());
      thread.setDaemon(true);
      thread.start();
    }

    private void await(AwaitTurnRequest request) {
      try {
        turn.complete(client.awaitTurn(request, told::add));
      } catch (RuntimeException e) {
        turn.completeExceptionally(e);
      }
    }

    Turn turn() throws Exception {
      return turn.get(SOON.toSeconds(), TimeUnit.SECONDS);
    }

    boolean hasTurn() {
      return turn.isDone() && turn.join().held();
    }

    /** Waits until so many are ahead of it. */
    Ahead ahead(int count) throws InterruptedException {
      Ahead ahead = told.poll(SOON.toSeconds(), TimeUnit.SECONDS);
      while (ahead != null && ahead.getCount() != count) {
        ahead = told.poll(SOON.toSeconds(), TimeUnit.SECONDS);
      }
      assertThat(ahead).isNotNull();
      return ahead;
    }

    @Override
    public void close() {
      client.close();
    }
  }
}
