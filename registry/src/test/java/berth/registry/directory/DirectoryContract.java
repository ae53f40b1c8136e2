package berth.registry.directory;

import static berth.registry.directory.SampleServers.heartbeat;
import static berth.registry.directory.SampleServers.registration;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.metrics.Metrics;
import berth.metrics.ShownMetrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;

/** What every {@link Directory} promises, whatever its store. */
abstract class DirectoryContract {
  static final LeaseTerms TERMS = new LeaseTerms(Duration.ofSeconds(2), 50);
  private static final Duration SOON = Duration.ofSeconds(10);

  /** The directory of this test, empty at its beginning. */
  abstract Directory directory();

  /** Those of the directory. */
  abstract Metrics metrics();

  @Test
  void tellsWhoFellSilentFromWhoSaidGoodbyeAndWhoWasReplaced() {
    directory().register(registration("gpu01", "h1:18812", "a", 2));
    directory().register(registration("gpu02", "h2:18812", "b", 2));
    directory().register(registration("gpu03", "h3:18812", "c", 2));
    directory().deregister("gpu02", "b");
    directory().register(registration("gpu04", "h3:18812", "d", 2));

    await().atMost(SOON).until(() -> departures("silent") == 2);
    assertThat(departures("deregistered")).isEqualTo(1);
    assertThat(departures("replaced")).isEqualTo(1);
  }

  private double departures(String reason) {
    return ShownMetrics.value(
        metrics(), "berth_registry_departures_total{reason=\"" + reason + "\"}");
  }

  @Test
  void aRegisteredServerIsKnown() {
    RegisterResponse response = directory().register(registration("gpu01", "h1:18812", "a", 2));

    Server server = awaitServer("gpu01");
    assertThat(server.getInfo().getAddress()).isEqualTo("h1:18812");
    assertThat(server.getInstance()).isEqualTo("a");
    assertThat(server.getGeneration()).isPositive().isEqualTo(response.getGeneration());
    assertThat(response.getLease().getSeconds()).isEqualTo(2);
    assertThat(response.getHeartbeatInterval().getNanos()).isEqualTo(800_000_000);
  }

  @Test
  void aHeartbeatCarriesWhatChanged() {
    String lease = directory().register(registration("gpu01", "h1:18812", "a", 2)).getLeaseId();

    HeartbeatResponse response =
        directory()
            .heartbeat(heartbeat("gpu01", "a", lease).toBuilder().setStatus(status(2, 1)).build());

    assertThat(response.getKnown()).isTrue();
    await()
        .atMost(SOON)
        .until(() -> find("gpu01").map(Server::getStatus).equals(Optional.of(status(2, 1))));
  }

  @Test
  void aHeartbeatCannotMoveAServerToAnotherAddress() {
    RegisterRequest request = registration("gpu01", "h1:18812", "a", 2);
    String lease = directory().register(request).getLeaseId();

    directory()
        .heartbeat(
            heartbeat("gpu01", "a", lease).toBuilder()
                .setInfo(request.getInfo().toBuilder().setAddress("h2:18812").setCpus(7))
                .build());

    await().atMost(SOON).until(() -> find("gpu01").get().getInfo().getCpus() == 7);
    assertThat(find("gpu01").get().getInfo().getAddress()).isEqualTo("h1:18812");
  }

  @Test
  void aServerThatReportsStaysKnown() throws InterruptedException {
    String lease = directory().register(registration("gpu01", "h1:18812", "a", 2)).getLeaseId();
    awaitServer("gpu01");
    directory().register(registration("silent", "h2:18812", "b", 2));
    awaitServer("silent");

    await()
        .atMost(SOON)
        .until(
            () -> {
              assertThat(directory().heartbeat(heartbeat("gpu01", "a", lease)).getKnown()).isTrue();
              return find("silent").isEmpty();
            });

    assertThat(find("gpu01")).isPresent();
  }

  @Test
  void aServerThatFellSilentMustRegisterAgain() {
    RegisterResponse first = directory().register(registration("gpu01", "h1:18812", "a", 2));
    awaitServer("gpu01");
    await().atMost(SOON).until(() -> find("gpu01").isEmpty());

    assertThat(directory().heartbeat(heartbeat("gpu01", "a", first.getLeaseId())).getUnknown())
        .isTrue();
    RegisterResponse second =
        directory()
            .register(
                registration("gpu01", "h1:18812", "a", 2).toBuilder()
                    .setGeneration(first.getGeneration())
                    .build());

    assertThat(second.getGeneration()).isEqualTo(first.getGeneration());
    awaitServer("gpu01");
    assertThat(directory().heartbeat(heartbeat("gpu01", "a", second.getLeaseId())).getKnown())
        .isTrue();
  }

  @Test
  void aServerThatLeavesIsGoneAtOnce() {
    directory().register(registration("gpu01", "h1:18812", "a", 2));
    awaitServer("gpu01");

    directory().deregister("gpu01", "a");

    await().atMost(TERMS.lease().dividedBy(2)).until(() -> find("gpu01").isEmpty());
  }

  @Test
  void onlyTheProcessThatIsKnownCanLeave() {
    directory().register(registration("gpu01", "h1:18812", "a", 2));
    awaitServer("gpu01");

    directory().deregister("gpu01", "another");
    directory().deregister("gpu02", "a");

    // What follows comes after what would have been a removal.
    directory().register(registration("gpu03", "h3:18812", "c", 1));
    awaitServer("gpu03");
    assertThat(find("gpu01")).isPresent();
  }

  @Test
  void aServerThatRestartsWithOtherGpusReplacesItselfAtOnce() {
    RegisterResponse first = directory().register(registration("gpu01", "h1:18812", "a", 2));

    RegisterResponse second = directory().register(registration("gpu01", "h1:18812", "b", 4));

    await().atMost(SOON).until(() -> find("gpu01").get().getInfo().getGpusCount() == 4);
    assertThat(second.getGeneration()).isGreaterThan(first.getGeneration());
    assertThat(all()).hasSize(1);
  }

  @Test
  void theNewerOfTwoServersWithOneNameWins() {
    RegisterResponse older = directory().register(registration("gpu01", "h1:18812", "a", 2));
    directory().register(registration("gpu01", "h2:18812", "b", 2));
    await().atMost(SOON).until(() -> find("gpu01").get().getInstance().equals("b"));

    HeartbeatResponse told = directory().heartbeat(heartbeat("gpu01", "a", older.getLeaseId()));

    assertThat(told.getReplacedBy()).isEqualTo("gpu01 at h2:18812");
    assertThatThrownBy(
            () ->
                directory()
                    .register(
                        registration("gpu01", "h1:18812", "a", 2).toBuilder()
                            .setGeneration(older.getGeneration())
                            .build()))
        .isInstanceOf(BerthException.class)
        .hasMessage("the name gpu01 is known already, as a newer server: gpu01 at h2:18812")
        .extracting(e -> ((BerthException) e).reason())
        .isEqualTo(Reason.ALREADY_EXISTS);
    assertThat(find("gpu01").get().getInfo().getAddress()).isEqualTo("h2:18812");
  }

  @Test
  void theNewerOfTwoServersWithOneAddressWins() {
    RegisterResponse older = directory().register(registration("old", "h1:18812", "a", 2));
    awaitServer("old");
    directory().register(registration("new", "h1:18812", "b", 2));
    awaitServer("new");
    await().atMost(SOON).until(() -> find("old").isEmpty());

    assertThat(directory().heartbeat(heartbeat("old", "a", older.getLeaseId())).getUnknown())
        .isTrue();
    assertThatThrownBy(
            () ->
                directory()
                    .register(
                        registration("old", "h1:18812", "a", 2).toBuilder()
                            .setGeneration(older.getGeneration())
                            .build()))
        .hasMessage("the address h1:18812 is known already, as a newer server: new at h1:18812");
    assertThat(all()).hasSize(1);
  }

  @Test
  void aNewerServerIsRecognisedThoughItComesLast() {
    // As after a restart of the registry: both know their numbers, nobody knows them.
    directory()
        .register(
            registration("gpu01", "h1:18812", "older", 2).toBuilder().setGeneration(4).build());
    awaitServer("gpu01");

    directory()
        .register(
            registration("gpu01", "h2:18812", "newer", 2).toBuilder().setGeneration(5).build());

    await().atMost(SOON).until(() -> find("gpu01").get().getInstance().equals("newer"));
    assertThat(all()).hasSize(1);
  }

  @Test
  void anOlderServerThatWasAwayDoesNotDisplaceTheOneThatCameMeanwhile() {
    // It had replaced others before, so its number is not the lowest.
    directory().register(registration("gpu01", "h1:18812", "first", 2));
    RegisterResponse older = directory().register(registration("gpu01", "h1:18812", "older", 2));
    directory().deregister("gpu01", "older");
    await().atMost(SOON).until(() -> find("gpu01").isEmpty());

    directory().register(registration("gpu01", "h2:18812", "newer", 2));

    assertThatThrownBy(
            () ->
                directory()
                    .register(
                        registration("gpu01", "h1:18812", "older", 2).toBuilder()
                            .setGeneration(older.getGeneration())
                            .build()))
        .hasMessageContaining("known already, as a newer server: gpu01 at h2:18812");
  }

  @Test
  void whatArrivesLateChangesNothing() {
    RegisterRequest request =
        registration("gpu01", "h1:18812", "a", 2).toBuilder().setSequence(1).build();
    String lease = directory().register(request).getLeaseId();
    directory()
        .heartbeat(
            heartbeat("gpu01", "a", lease).toBuilder()
                .setStatus(status(2, 0))
                .setSequence(3)
                .build());

    HeartbeatResponse late =
        directory()
            .heartbeat(
                heartbeat("gpu01", "a", lease).toBuilder()
                    .setStatus(status(2, 1))
                    .setSequence(2)
                    .build());
    directory().register(request);

    assertThat(late.getKnown()).isTrue();
    await()
        .atMost(SOON)
        .until(() -> find("gpu01").map(Server::getStatus).equals(Optional.of(status(2, 0))));
    directory().register(registration("gpu02", "h2:18812", "b", 1));
    awaitServer("gpu02");
    assertThat(find("gpu01").get().getStatus()).isEqualTo(status(2, 0));
  }

  @Test
  void aServerMayMoveToAnotherAddress() {
    RegisterResponse first = directory().register(registration("gpu01", "h1:18812", "a", 2));
    directory()
        .register(
            registration("gpu01", "h2:18812", "a", 2).toBuilder()
                .setGeneration(first.getGeneration())
                .build());
    await().atMost(SOON).until(() -> find("gpu01").get().getInfo().getAddress().equals("h2:18812"));

    // The old address is nobody's.
    directory()
        .register(registration("gpu02", "h1:18812", "b", 2).toBuilder().setGeneration(1).build());

    awaitServer("gpu02");
    assertThat(all()).hasSize(2);
  }

  @Test
  void notMoreServersAreKnownThanMayBe() {
    for (int i = 0; i < TERMS.maxServers(); i++) {
      directory().register(registration("gpu" + i, "h" + i + ":1", "i" + i, 1));
    }
    await().atMost(SOON).until(() -> all().size() == TERMS.maxServers());

    assertThatThrownBy(() -> directory().register(registration("more", "more:1", "more", 1)))
        .extracting(e -> ((BerthException) e).reason())
        .isEqualTo(Reason.EXHAUSTED);
  }

  @Test
  void aWatchSeesEveryServerComeChangeAndGo() {
    ServerWatch watch =
        new ServerWatch(directory().roster(), ServerFilter.getDefaultInstance(), "");
    assertThat(awaitNext(watch).getReset()).isTrue();

    String lease = directory().register(registration("gpu01", "h1:18812", "a", 2)).getLeaseId();
    assertThat(awaitNext(watch).getServers(0).getInfo().getName()).isEqualTo("gpu01");
    directory()
        .heartbeat(heartbeat("gpu01", "a", lease).toBuilder().setStatus(status(2, 0)).build());
    assertThat(awaitNext(watch).getServers(0).getStatus()).isEqualTo(status(2, 0));
    directory().deregister("gpu01", "a");
    assertThat(awaitNext(watch).getRemovedList()).containsExactly("gpu01");
  }

  private Server awaitServer(String name) {
    await().atMost(SOON).until(() -> find(name).isPresent());
    return find(name).get();
  }

  private Optional<Server> find(String name) {
    return directory().roster().find(name).map(Listed::server);
  }

  private List<Listed> all() {
    return StreamSupport.stream(directory().roster().all().spliterator(), false).toList();
  }

  private static WatchServersResponse awaitNext(ServerWatch watch) {
    return await().atMost(SOON).until(watch::next, response -> response != null);
  }
}
