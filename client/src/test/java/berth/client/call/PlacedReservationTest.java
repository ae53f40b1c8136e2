package berth.client.call;

import static berth.fake.FakeRegistry.candidate;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRegistry;
import berth.fake.FakeReservations;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.Lifetime;
import berth.v1.Queued;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WaitTime;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PlacedReservationTest {
  private static final ReserveResponse QUEUED =
      ReserveResponse.newBuilder().setQueued(Queued.newBuilder().setAhead(2)).build();

  private final FakeRegistry registry = new FakeRegistry();
  private final FakeReservations first = new FakeReservations("r-1");
  private final FakeReservations second = new FakeReservations("r-2");
  private final RegistryClient client = RegistryClient.of(List.of(registry.address()));
  private final List<ReserveResponse> seen = new ArrayList<>();
  private final List<String> notes = new ArrayList<>();

  @AfterEach
  void close() {
    client.close();
    first.close();
    second.close();
    registry.close();
  }

  @Test
  void movesOnWhenAServerFilledUpMeanwhileOrIsGone() {
    registry.find(
        candidate(FakeRegistry.server("gone", new Address("127.0.0.1", 1), 1, 1), true),
        candidate(server("gpu01", first), true),
        candidate(server("gpu02", second), true));
    first.onReserve = (request, stream) -> FakeRuns.fail(stream, Reason.EXHAUSTED, "full");

    reserve(WaitTime.newBuilder().setForever(true).build());

    assertThat(seen).containsExactly(second.granted);
    assertThat(second.asked).singleElement().matches(request -> !request.hasWait());
    assertThat(notes)
        .containsExactly(
            "passed gone: no berthd at 127.0.0.1:1: Connection refused",
            "passed gpu01: full",
            "placed gpu02");
  }

  @Test
  void waitsWhenNobodyHasRoomAndLeavesAServerThatDrains() {
    registry.find(
        candidate(server("gpu01", first), false), candidate(server("gpu02", second), false));
    first.onReserve =
        (request, stream) -> {
          stream.onNext(QUEUED);
          FakeRuns.fail(stream, Reason.UNAVAILABLE, "gpu01 drains");
        };

    reserve(WaitTime.newBuilder().setForever(true).build());

    assertThat(seen).containsExactly(QUEUED, second.granted);
    assertThat(first.asked).singleElement().matches(request -> request.getWait().getForever());
    assertThat(notes).containsExactly("waits gpu01", "passed gpu01: gpu01 drains", "placed gpu02");
  }

  @Test
  void whatWasGrantedIsNotReservedAgainElsewhere() {
    registry.find(
        candidate(server("gpu01", first), true), candidate(server("gpu02", second), true));
    first.onReserve =
        (request, stream) -> {
          stream.onNext(first.granted);
          FakeRuns.fail(stream, Reason.UNAVAILABLE, "gpu01 stops");
        };

    assertThatThrownBy(() -> reserve(WaitTime.getDefaultInstance())).hasMessage("gpu01 stops");
    assertThat(second.asked).isEmpty();
  }

  @Test
  void aTimedReservationIsNotMadeTwiceWhenTheConnectionBreaksBeforeTheGrant() {
    registry.find(
        candidate(server("gpu01", first), true), candidate(server("gpu02", second), true));
    first.onReserve = (request, stream) -> stream.onError(Status.UNAVAILABLE.asException());

    assertThatThrownBy(() -> reserve(timed()))
        .hasMessageEndingWith("; it may still be reserved there: see 'berth reservations'");
    assertThat(first.asked).singleElement().matches(request -> !request.getRequestId().isEmpty());
    assertThat(second.asked).isEmpty();
  }

  @Test
  void aTimedReservationMovesOnWhenAServerSaysThatItDrains() {
    registry.find(
        candidate(server("gpu01", first), true), candidate(server("gpu02", second), true));
    first.onReserve =
        (request, stream) -> FakeRuns.fail(stream, Reason.UNAVAILABLE, "gpu01 drains");

    reserve(timed());

    assertThat(seen).containsExactly(second.granted);
  }

  @Test
  void aReservationThatLivesByItsStreamMovesOnWhenThatBreaksBeforeTheGrant() {
    registry.find(
        candidate(server("gpu01", first), true), candidate(server("gpu02", second), true));
    first.onReserve = (request, stream) -> stream.onError(Status.UNAVAILABLE.asException());

    reserve(ReserveRequest.newBuilder().setLifetime(Lifetime.newBuilder().setStream(true)).build());

    assertThat(seen).containsExactly(second.granted);
  }

  @Test
  void theLifeOfAProcessNeedsAGivenServer() {
    registry.find(candidate(server("gpu01", first), true));
    ReserveRequest request =
        ReserveRequest.newBuilder().setLifetime(Lifetime.newBuilder().setProcess(42)).build();

    assertThatThrownBy(() -> reserve(request)).hasMessage("a process requires a server");
    assertThat(first.asked).isEmpty();
  }

  private static ReserveRequest timed() {
    return ReserveRequest.newBuilder()
        .setLifetime(Lifetime.newBuilder().setDuration(Messages.duration(Duration.ofHours(2))))
        .build();
  }

  private static Server server(String name, FakeReservations fake) {
    return FakeRegistry.server(name, fake.address(), 1, 1);
  }

  private void reserve(WaitTime wait) {
    reserve(
        ReserveRequest.newBuilder()
            .setGpus(GpuRequest.newBuilder().setCount(1))
            .setWait(wait)
            .build());
  }

  private void reserve(ReserveRequest request) {
    new PlacedReservation(
            client,
            seen::add,
            new PlacementListener() {
              @Override
              public void placed(Server server, boolean waits) {
                notes.add((waits ? "waits " : "placed ") + server.getInfo().getName());
              }

              @Override
              public void passed(Server server, BerthException why) {
                notes.add("passed " + server.getInfo().getName() + ": " + why.getMessage());
              }
            })
        .reserve(request, ServerFilter.getDefaultInstance());
  }
}
