package berth.registry.line;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.registry.line.TurnLine.Place;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import berth.v1.Owner;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TurnLineTest {
  // Near the end of its range, where it goes on with negative numbers.
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 1000);
  private final TurnLine line = new TurnLine(clock::get);

  @BeforeEach
  void aLineThatWasThereForLong() {
    pass(TurnLine.SETTLING);
  }

  @Test
  void thoseWhoShareAServerHaveTheirTurnsInTheOrderTheyCame() {
    Place first = enter("ann", "gpu01", "gpu02");
    Place second = enter("bob", "gpu02", "gpu03");
    Place third = enter("eve", "gpu02");

    assertThat(first.next()).isEqualTo(turn());
    assertThat(ahead(second)).isEqualTo("1, next ann");
    assertThat(ahead(third)).isEqualTo("2, next bob");
    first.leave();
    assertThat(second.next()).isEqualTo(turn());
    assertThat(ahead(third)).isEqualTo("1, next bob");
    second.leave();
    assertThat(third.next()).isEqualTo(turn());
  }

  @Test
  void whoSharesNoServerWithAnybodyBeforeItOvertakesThem() {
    enter("ann", "gpu01", "gpu02");
    Place waiting = enter("bob", "gpu02", "gpu03");

    assertThat(enter("eve", "gpu04", "gpu05").next()).isEqualTo(turn());
    assertThat(ahead(waiting)).isEqualTo("1, next ann");
  }

  @Test
  void whoSharesAServerWithSomebodyWhoWaitsDoesNotOvertakeIt() {
    Place first = enter("ann", "gpu01", "gpu02");
    enter("bob", "gpu02", "gpu03");

    Place third = enter("eve", "gpu03");

    assertThat(ahead(third)).isEqualTo("1, next bob");
    first.leave();
    assertThat(third.next()).isNull();
  }

  @Test
  void severalWhoShareNothingHaveTheirTurnsTogether() {
    Place first = enter("ann", "gpu01", "gpu02", "gpu03");
    List<Place> others = List.of(enter("bob", "gpu01"), enter("eve", "gpu02", "gpu03"));

    first.leave();

    assertThat(others).allMatch(place -> place.next().getTurn());
  }

  @Test
  void whoLeavesBeforeItsTurnFreesThoseBehindIt() {
    enter("ann", "gpu01");
    Place second = enter("bob", "gpu01", "gpu02");
    Place third = enter("eve", "gpu02");

    second.leave();
    second.leave();

    assertThat(third.next()).isEqualTo(turn());
    assertThat(ahead(enter("kim", "gpu01", "gpu02"))).isEqualTo("2, next eve");
  }

  @Test
  void everyStateIsToldOnceAndTheTurnLast() {
    Place first = enter("ann", "gpu01");
    Place second = enter("bob", "gpu01");
    Place third = enter("eve", "gpu01");
    List<String> news = new ArrayList<>();
    third.listen(() -> news.add(third.next().getAhead().getCount() + " ahead"));

    assertThat(ahead(third)).isEqualTo("2, next bob");
    assertThat(third.next()).isNull();
    second.leave();
    third.listen(() -> {});
    first.leave();

    assertThat(news).containsExactly("1 ahead");
    assertThat(third.next()).isEqualTo(turn());
    assertThat(third.next()).isNull();
  }

  @Test
  void whoDoesNotReadIsToldOnlyTheNewest() {
    List<Place> ahead =
        IntStream.range(0, 100).mapToObj(i -> enter("user" + i, "gpu01", "gpu" + i)).toList();
    Place slow = enter("ann", "gpu01");

    ahead.subList(1, 100).forEach(Place::leave);

    assertThat(ahead(slow)).isEqualTo("1, next user0");
    assertThat(slow.next()).isNull();
  }

  @Test
  void saysWhoIsNextAndSinceWhenAlsoWhenItCameFromElsewhere() {
    line.enter(
        request("ann", "gpu01").toBuilder()
            .setPurpose("bert")
            .setWaited(Messages.duration(Duration.ofHours(1)))
            .build());

    Ahead ahead = enter("bob", "gpu01").next().getAhead();

    assertThat(ahead.getOwner().getHost()).isEqualTo("login");
    assertThat(ahead.getPurpose()).isEqualTo("bert");
    assertThat(Messages.instant(ahead.getSince()))
        .isBetween(Instant.now().minusSeconds(3700), Instant.now().minusSeconds(3600));
  }

  @Test
  void thoseWhoHaveWaitedElsewhereComeIntoTheirOldOrderWhicheverIsFirst() {
    Place second = enterAfter(Duration.ofSeconds(20), "bob", "gpu01");
    pass(Duration.ofSeconds(1));
    Place fresh = enter("eve", "gpu01");
    Place first = enterAfter(Duration.ofSeconds(40), "ann", "gpu01");

    assertThat(ahead(first)).isEqualTo("0, next ");
    assertThat(ahead(second)).isEqualTo("1, next ann");
    assertThat(ahead(fresh)).isEqualTo("2, next bob");
    pass(Duration.ofSeconds(1));
    second.settle();
    assertThat(second.next()).isNull();
    pass(Duration.ofSeconds(1));
    first.settle();
    assertThat(first.next()).isEqualTo(turn());
    first.leave();
    assertThat(second.next()).isEqualTo(turn());
  }

  @Test
  void whoComesFromElsewhereGetsOnlyBeforeThoseWhoWait() {
    Place first = enter("ann", "gpu01");
    Place second = enter("bob", "gpu01");
    assertThat(ahead(second)).isEqualTo("1, next ann");

    Place old = enterAfter(Duration.ofDays(1), "eve", "gpu01");

    assertThat(first.next()).isEqualTo(turn());
    assertThat(ahead(old)).isEqualTo("1, next ann");
    assertThat(ahead(second)).isEqualTo("2, next eve");
    first.leave();
    pass(TurnLine.SETTLING);
    old.settle();
    assertThat(old.next()).isEqualTo(turn());
  }

  @Test
  void aNewLineGivesThoseWhoWaitedInAnotherTheTimeToCome() {
    TurnLine restarted = new TurnLine(clock::get);
    Place fresh = restarted.enter(request("ann", "gpu01"));
    assertThat(ahead(fresh)).isEqualTo("0, next ");
    assertThat(fresh.settlesIn()).hasValue(TurnLine.SETTLING.toNanos());

    pass(TurnLine.SETTLING.minusNanos(1));
    fresh.settle();
    assertThat(fresh.next()).isNull();
    pass(Duration.ofNanos(1));
    fresh.settle();

    assertThat(fresh.next()).isEqualTo(turn());
    assertThat(fresh.settlesIn()).isEmpty();
  }

  @Test
  void nobodyHasWaitedForMoreThanThirtyDays() {
    Place first = enterAfter(Duration.ofDays(30), "ann", "gpu01");
    Place second = enterAfter(Duration.ofSeconds(315_576_000_000L), "bob", "gpu01");

    assertThat(ahead(first)).isEqualTo("0, next ");
    assertThat(ahead(second)).isEqualTo("1, next ann");
  }

  @Test
  void theLineIsOnlySoLong() {
    List<Place> places = new ArrayList<>();
    for (int i = 0; i < TurnLine.MAX_PLACES; i++) {
      places.add(enter("ann", "gpu" + i));
    }

    assertThatThrownBy(() -> enter("bob", "other"))
        .isInstanceOf(BerthException.class)
        .hasMessage("10000 clusters are queued already, the maximum")
        .extracting(e -> ((BerthException) e).reason())
        .isEqualTo(Reason.EXHAUSTED);
    places.get(77).leave();
    assertThat(enter("bob", "other").next()).isEqualTo(turn());
  }

  @Test
  void thoseInLineNameOnlySoManyServers() {
    String[] all = IntStream.range(0, 10_000).mapToObj(i -> "gpu" + i).toArray(String[]::new);
    List<Place> places = new ArrayList<>();
    for (int i = 0; i < TurnLine.MAX_SERVERS / all.length; i++) {
      places.add(enter("ann", all));
    }

    assertThatThrownBy(() -> enter("bob", "gpu1"))
        .hasMessage("queued clusters name 500000 servers already, at most 500000");
    places.get(7).leave();
    assertThat(ahead(enter("bob", "gpu1"))).isEqualTo("49, next ann");
  }

  private Place enter(String user, String... servers) {
    return line.enter(request(user, servers));
  }

  private Place enterAfter(Duration waited, String user, String... servers) {
    return line.enter(
        request(user, servers).toBuilder().setWaited(Messages.duration(waited)).build());
  }

  private static AwaitTurnRequest request(String user, String... servers) {
    return AwaitTurnRequest.newBuilder()
        .addAllServers(List.of(servers))
        .setOwner(Owner.newBuilder().setUser(user).setHost("login"))
        .build();
  }

  private void pass(Duration time) {
    clock.addAndGet(time.toNanos());
  }

  private static AwaitTurnResponse turn() {
    return AwaitTurnResponse.newBuilder().setTurn(true).build();
  }

  private static String ahead(Place place) {
    AwaitTurnResponse state = place.next();
    assertThat(state.hasAhead()).isTrue();
    return state.getAhead().getCount() + ", next " + state.getAhead().getOwner().getUser();
  }
}
