package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static berth.server.reservation.Box.askingNow;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.LockedGpu;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Box.Outcome;
import berth.server.reservation.Reservation.Owner;
import java.lang.ref.WeakReference;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What one daemon grants, to whom, for how long. */
class ReservationsTest {
  private static final Optional<Duration> NOT_AT_ALL = Optional.of(Duration.ZERO);
  private static final Optional<Duration> FOR_EVER = Optional.empty();

  @TempDir private Path folder;
  private Box box;
  private Reservations daemon;

  @BeforeEach
  void open() {
    box = new Box(folder, Box.gpus(4));
    daemon = box.daemon();
  }

  @AfterEach
  void close() {
    box.close();
  }

  @Test
  void takesNoGpuWhenTooFewAreIdle() {
    Outcome.of(daemon, asking(3)).get();

    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(2)).get())
        .hasMessage("2 GPUs asked, 1 idle")
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED));
    assertThat(indices(Outcome.of(daemon, askingNow(1)).get())).containsExactly(3);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, -2, -100})
  void refusesCountsThatAreNone(int count) {
    assertThatThrownBy(() -> GpuWish.of(count))
        .hasMessage(count + " GPUs asked; ask for 1 or more, or -1 for all");
  }

  @Test
  void refusesWhatTheServerCanNeverGiveBeforeAnythingIsLocked() {
    assertThatThrownBy(() -> daemon.reserve(asking(5), new Outcome()))
        .hasMessage("5 GPUs asked, this server has 4");
    assertThatThrownBy(() -> daemon.reserve(exactly("GPU-9"), new Outcome()))
        .hasMessage("no GPU GPU-9 here: this server has 4");
    assertThatThrownBy(() -> daemon.reserve(exactly("1", "GPU-1"), new Outcome()))
        .hasMessage("GPU GPU-1 is asked for twice");
    assertThatThrownBy(() -> daemon.reserve(filtered(1, 0, "H100"), new Outcome()))
        .hasMessage("1 GPU of model 'H100' asked, this server has 0 such of 4");
    assertThatThrownBy(() -> daemon.reserve(filtered(1, 90L << 30, ""), new Outcome()))
        .hasMessage("1 GPU with 92160 MiB free asked, this server has 0 such of 4");
    assertThat(Files.exists(box.locks().resolve("tmp_lock_berth_queue"))).isFalse();
  }

  @Test
  void allMeansEveryHealthyGpu() throws Exception {
    box.describe(Box.gpus(4).replace("gpu GPU-2", "gpu GPU-2\n  status 15"));

    assertThat(indices(Outcome.of(daemon, askingNow(GpuWish.ALL)).get())).containsExactly(0, 1, 3);
  }

  @Test
  void givesGivenGpusByIndexAndByUuid() {
    Reservation reservation = Outcome.of(daemon, exactly("GPU-3", "1")).get();

    assertThat(reservation.gpus())
        .containsExactly(new LockedGpu(1, "GPU-1"), new LockedGpu(3, "GPU-3"));
  }

  @Test
  void takesTheBestConnectedGpusAndAmongEqualsTheLowest() throws Exception {
    box.describe(
        """
        gpu GPU-0
          pcie 1 50
          pcie 2 10
          pcie 3 50
        gpu GPU-1
          nvlink 3 4
          pcie 2 50
          pcie 3 50
        gpu GPU-2
          pcie 3 50
        gpu GPU-3
          nvlink 1 4
        """);

    Reservation best = Outcome.of(daemon, askingNow(2)).get();
    assertThat(indices(best)).containsExactly(1, 3);
    assertThat(indices(Outcome.of(daemon, askingNow(2)).get())).containsExactly(0, 2);
    daemon.release(best.id());
    assertThat(indices(Outcome.of(daemon, askingNow(1)).get())).containsExactly(1);
  }

  @Test
  void asksForModelAndFreeMemory() throws Exception {
    box.describe(
        """
        gpu GPU-0
          name Simulated T4
          memory 15360 0
        gpu GPU-1
          name Simulated A100
          memory 81920 81000
        gpu GPU-2
          name Simulated A100
          memory 81920 0
        """);

    assertThat(indices(Outcome.of(daemon, filtered(1, 1L << 30, "a100")).get())).containsExactly(2);
    assertThatThrownBy(() -> Outcome.of(daemon, filtered(2, 1L << 30, "a100")).get())
        .hasMessage("2 GPUs of model 'a100' with 1024 MiB free asked, 0 idle");
  }

  @Test
  void servicesABAndCOfTheOldDocumentationComeOutTheSame() {
    Reservation a = Outcome.of(daemon, asking(2)).get();
    assertThat(indices(a)).containsExactly(0, 1);
    Outcome b = Outcome.of(daemon, asking(3)).awaitQueued();
    Outcome c = Outcome.of(daemon, asking(1)).awaitQueued();
    assertThat(c.isGranted()).isFalse();

    daemon.release(a.id());

    assertThat(indices(b.get())).containsExactly(0, 2, 3);
    assertThat(indices(c.get())).containsExactly(1);
  }

  @Test
  void aBigRequestIsNotOvertakenBySmallOnes() {
    Reservation first = Outcome.of(daemon, asking(1)).get();
    Outcome big = Outcome.of(daemon, asking(4)).awaitQueued();
    Outcome small = Outcome.of(daemon, asking(1)).awaitQueued();
    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
        .hasMessage("1 GPU asked, but others are waiting already");

    daemon.release(first.id());

    Reservation granted = big.get();
    assertThat(small.isGranted()).isFalse();
    daemon.release(granted.id());
    small.get();
  }

  @Test
  void tellsThePlaceInTheLine() {
    Reservation holder = Outcome.of(daemon, asking(4)).get();
    Outcome next = Outcome.of(daemon, asking(4)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(4)).awaitQueued();
    Outcome third = Outcome.of(daemon, asking(4)).awaitQueued();

    second.leave();
    daemon.release(holder.id());
    daemon.release(next.get().id());
    third.get();

    assertThat(next.positions()).containsExactly(0);
    assertThat(second.positions()).containsExactly(1);
    assertThat(third.positions()).startsWith(2, 1);
  }

  @Test
  void waitsNoLongerThanAsked() {
    Outcome.of(daemon, asking(4)).get();

    assertThatThrownBy(
            () ->
                Outcome.of(daemon, asking(GpuWish.of(1), Optional.of(Duration.ofMillis(100))))
                    .get())
        .hasMessage("1 GPU asked, not granted within 0.1 s")
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.TIMED_OUT));
    assertThat(daemon.overview().waiting()).isEmpty();
  }

  @Test
  void whoLeavesTheLineIsNotServed() {
    Reservation holder = Outcome.of(daemon, asking(4)).get();
    Outcome first = Outcome.of(daemon, asking(4)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(1)).awaitQueued();

    first.leave();
    daemon.release(holder.id());

    second.get();
    assertThat(first.isGranted()).isFalse();
    assertThat(daemon.overview().reservations()).hasSize(1);
  }

  @Test
  void aRetryWithTheSameRequestIdReturnsTheSameReservation() {
    Lifetime lifetime = new Lifetime.Renewals(Duration.ofMinutes(1));
    ReservationRequest request = Box.request(GpuWish.of(2), NOT_AT_ALL, lifetime, "job-7");

    Reservation first = Outcome.of(daemon, request).get();
    assertThat(Outcome.of(daemon, request).get()).isEqualTo(first);
    daemon.release(first.id());
    assertThat(Outcome.of(daemon, request).get().id()).isNotEqualTo(first.id());
  }

  @Test
  void aRetryWhileWaitingKeepsThePlace() {
    Reservation holder = Outcome.of(daemon, asking(4)).get();
    Lifetime lifetime = new Lifetime.Renewals(Duration.ofMinutes(1));
    ReservationRequest request = Box.request(GpuWish.of(1), FOR_EVER, lifetime, "job-8");
    Outcome lost = Outcome.of(daemon, request).awaitQueued();
    Outcome other = Outcome.of(daemon, asking(4)).awaitQueued();
    Outcome retry = Outcome.of(daemon, request);
    lost.leave();

    daemon.release(holder.id());

    retry.get();
    assertThat(other.isGranted()).isFalse();
    assertThat(daemon.overview().waiting()).hasSize(1);
  }

  @Test
  void aLeaseThatNobodyRenewsEnds() {
    Lifetime brief = new Lifetime.Renewals(Duration.ofMillis(200));
    Outcome forgotten = Outcome.of(daemon, Box.request(GpuWish.of(4), NOT_AT_ALL, brief, ""));
    Reservation reservation = forgotten.get();

    Outcome.of(daemon, asking(4)).get();
    forgotten.awaitEnd();
    assertThatThrownBy(() -> daemon.renew(reservation.id(), Optional.empty()))
        .hasMessageStartingWith("there is no reservation '" + reservation.id() + "'");
  }

  @Test
  void renewingMovesTheEndBothWays() {
    Lifetime lifetime = new Lifetime.Renewals(Duration.ofMinutes(1));
    Outcome outcome = Outcome.of(daemon, Box.request(GpuWish.of(1), NOT_AT_ALL, lifetime, ""));
    Reservation reservation = outcome.get();

    Reservation later = daemon.renew(reservation.id(), Optional.of(Duration.ofHours(2)));
    assertThat(end(later) - end(reservation)).isGreaterThan(Duration.ofMinutes(118).toNanos());
    assertThat(end(daemon.renew(reservation.id(), Optional.empty()))).isGreaterThan(end(later));
    daemon.renew(reservation.id(), Optional.of(Duration.ofMillis(50)));
    outcome.awaitEnd();
  }

  @Test
  void isProlongedAlsoWhileThatCannotBeWrittenDownAndEndsAllTheSame() throws Exception {
    Lifetime lifetime = new Lifetime.Lasting(Duration.ofMillis(500));
    Outcome outcome = Outcome.of(daemon, Box.request(GpuWish.of(1), NOT_AT_ALL, lifetime, ""));
    Reservation reservation = outcome.get();
    // Worse than a full disk, on which a record can be replaced where it stands.
    Path record = folder.resolve("states/d1/" + reservation.id() + ".reservation");
    Files.delete(record);
    Files.createDirectory(record);

    Reservation later = daemon.renew(reservation.id(), Optional.of(Duration.ofSeconds(2)));
    outcome.awaitEnd();

    assertThat(System.nanoTime() - end(later)).isPositive();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void aReservationThatLivesByItsCallerEndsWithIt() {
    Outcome caller =
        Outcome.of(daemon, Box.request(GpuWish.of(4), NOT_AT_ALL, new Lifetime.OfStream(), ""));
    Reservation reservation = caller.get();
    assertThatThrownBy(() -> daemon.renew(reservation.id(), Optional.empty()))
        .hasMessageContaining("lives as long as its client listens");

    caller.leave();

    caller.awaitEnd();
    Outcome.of(daemon, askingNow(4)).get();
  }

  @Test
  void releasesOnceOnly() {
    Reservation reservation = Outcome.of(daemon, asking(1)).get();
    daemon.release(reservation.id());

    assertThatThrownBy(() -> daemon.release(reservation.id()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.NOT_FOUND));
  }

  @Test
  void holdsPortsThatNobodyUsesAndGivesNoneTwice() throws Exception {
    Reservations few = box.daemon("few", "20000-20003");
    Reservations other = box.daemon("other", "20000-20003");
    try (ServerSocket taken = new ServerSocket()) {
      taken.bind(new InetSocketAddress("127.0.0.1", 20001));

      Reservation two = Outcome.of(few, ports(2)).get();
      assertThat(two.ports()).containsExactly(20000, 20002);
      assertThat(Outcome.of(other, ports(1)).get().ports()).containsExactly(20003);
      assertThatThrownBy(() -> few.reserve(ports(1), new Outcome()))
          .hasMessage("1 ports asked, 0 free in 20000-20003");
      assertThatThrownBy(() -> few.reserve(ports(5), new Outcome()))
          .hasMessage("5 ports asked, the range 20000-20003 has 4");
      few.release(two.id());
      assertThat(Outcome.of(other, ports(2)).get().ports()).containsExactly(20000, 20002);
    }
  }

  @Test
  void whoAsksForPortsWaitsForNobodyElseWhoDoes() throws Exception {
    CompletableFuture<Reservation> other = new CompletableFuture<>();
    CompletableFuture<Reservation> first = new CompletableFuture<>();
    ReservationListener slow =
        new Box.Outcome() {
          @Override
          public void granted(Reservation reservation) {
            other.orTimeout(60, TimeUnit.SECONDS).join();
            first.complete(reservation);
          }
        };
    CompletableFuture<Void> call = CompletableFuture.runAsync(() -> daemon.reserve(ports(1), slow));
    await().until(() -> daemon.overview().reservations().size() == 1);

    other.complete(Outcome.of(daemon, ports(1)).get());

    assertThat(first.get(60, TimeUnit.SECONDS).ports()).isNotEqualTo(other.get().ports());
    call.get(60, TimeUnit.SECONDS);
  }

  @Test
  void thoseWhoAskForTheSamePortsAtOnceGetTheSame() throws Exception {
    ReservationRequest request =
        new ReservationRequest(
            Optional.empty(),
            1,
            NOT_AT_ALL,
            new Lifetime.Lasting(Duration.ofMinutes(1)),
            new Owner("ada", "laptop"),
            "",
            "job-9");
    List<CompletableFuture<String>> ids =
        IntStream.range(0, 8)
            .mapToObj(
                i -> CompletableFuture.supplyAsync(() -> Outcome.of(daemon, request).get().id()))
            .toList();

    for (CompletableFuture<String> id : ids) {
      assertThat(id.get(60, TimeUnit.SECONDS)).isEqualTo(ids.get(0).get());
    }
    assertThat(daemon.overview().reservations()).hasSize(1);
  }

  @Test
  void nothingIsKeptOfAWaitThatIsOver() {
    WeakReference<Outcome> served = served();

    await()
        .atMost(Duration.ofSeconds(60))
        .until(
            () -> {
              System.gc();
              return served.refersTo(null);
            });
  }

  private WeakReference<Outcome> served() {
    Outcome outcome = Outcome.of(daemon, asking(GpuWish.of(1), Optional.of(Duration.ofHours(24))));
    daemon.release(outcome.get().id());
    return new WeakReference<>(outcome);
  }

  @Test
  void sickGpusAreNotGivenOut() throws Exception {
    box.describe(Box.gpus(4).replace("gpu GPU-0", "gpu GPU-0\n  status 15"));

    assertThat(indices(Outcome.of(daemon, askingNow(1)).get())).containsExactly(1);
    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(4)).get())
        .hasMessageStartingWith("4 GPUs asked, 3 usable; GPU 0 is lost: ");
  }

  @Test
  void gpusThatStrangersUseAreShownAndNotGivenOut() throws Exception {
    box.describe(Box.gpus(2).replace("gpu GPU-0", "gpu GPU-0\n  process 4711 100"));

    assertThat(daemon.overview().unreservedUse())
        .containsExactly(new Overview.UnreservedUse(0, "GPU-0", List.of(4711)));
    assertThat(indices(Outcome.of(daemon, askingNow(1)).get())).containsExactly(1);
    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
        .hasMessage("1 GPU asked, 0 idle; GPU 0 is used without a reservation");

    Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();
    box.describe(Box.gpus(2));
    assertThat(indices(waiting.get())).containsExactly(0);
  }

  @Test
  void processesOnAReservedGpuAreExplained() throws Exception {
    Reservation reservation = Outcome.of(daemon, exactly("0")).get();
    box.describe(Box.gpus(4).replace("gpu GPU-0", "gpu GPU-0\n  process 4711 100"));

    assertThat(daemon.overview().unreservedUse()).isEmpty();
    daemon.release(reservation.id());
    assertThat(daemon.overview().unreservedUse()).hasSize(1);
  }

  @Test
  void aDrainingServerGrantsNothingAndRefusesWhoWaits() {
    Reservation running = Outcome.of(daemon, asking(4)).get();
    Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();

    assertThat(daemon.setDraining(true)).isEqualTo(1);

    assertThatThrownBy(waiting::get).hasMessageContaining("is draining");
    assertThatThrownBy(() -> daemon.reserve(askingNow(1), new Outcome()))
        .hasMessageContaining("is draining");
    assertThat(daemon.overview().reservations()).containsExactly(running);
    daemon.setDraining(false);
    daemon.release(running.id());
    Outcome.of(daemon, askingNow(1)).get();
  }

  @Test
  void showsWhoHoldsAndWhoWaits() {
    Reservation held = Outcome.of(daemon, asking(4)).get();
    Outcome.of(daemon, asking(2)).awaitQueued();

    Overview overview = daemon.overview();
    assertThat(overview.reservations()).containsExactly(held);
    assertThat(held.owner()).isEqualTo(new Owner("ada", "laptop"));
    assertThat(overview.waiting()).hasSize(1);
    assertThat(overview.lockedByOthers()).isEmpty();
  }

  @Test
  void twoDaemonsOnOneBoxShareTheGpusInOneLine() {
    Reservations other = box.daemon();
    Reservation ours = Outcome.of(daemon, asking(3)).get();
    Reservation theirs = Outcome.of(other, asking(1)).get();
    assertThat(indices(theirs)).containsExactly(3);
    assertThat(other.overview().lockedByOthers())
        .extracting(Overview.LockedByOther::description)
        .containsOnly("berthd d1: " + ours.id() + " of ada@laptop");

    Outcome first = Outcome.of(other, asking(2)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(2)).awaitQueued();
    Outcome third = Outcome.of(other, asking(1)).awaitQueued();
    daemon.release(ours.id());

    assertThat(indices(first.get())).hasSize(2);
    assertThat(second.isGranted()).isFalse();
    assertThat(third.isGranted()).isFalse();
    other.release(theirs.id());
    assertThat(indices(second.get())).doesNotContainAnyElementsOf(indices(first.get()));
    daemon.release(second.get().id());
    third.get();
  }

  @Test
  void stoppingRefusesWhoWaitsAndFreesWhatCannotGoOn() {
    Outcome.of(daemon, asking(4)).get();
    Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();

    daemon.close();

    assertThatThrownBy(waiting::get).hasMessage("this server is stopping");
    Outcome.of(box.daemon(), askingNow(4)).get();
  }

  @Test
  void oneThatStopsLeavesReservationsToTheNext() {
    String id = Outcome.of(daemon, asking(1)).get().id();

    daemon.close();

    assertThatThrownBy(() -> daemon.renew(id, Optional.empty()))
        .hasMessage("this server is stopping");
    assertThatThrownBy(() -> daemon.release(id)).hasMessage("this server is stopping");
  }

  private static ReservationRequest exactly(String... ids) {
    return asking(new GpuWish(0, List.of(ids), 0, ""), NOT_AT_ALL);
  }

  private static ReservationRequest filtered(int count, long memory, String model) {
    return asking(new GpuWish(count, List.of(), memory, model), NOT_AT_ALL);
  }

  private static ReservationRequest ports(int count) {
    return new ReservationRequest(
        Optional.empty(),
        count,
        NOT_AT_ALL,
        new Lifetime.Renewals(Duration.ofMinutes(1)),
        new Owner("ada", "laptop"),
        "",
        "");
  }

  private static List<Integer> indices(Reservation reservation) {
    return reservation.gpus().stream().map(LockedGpu::index).toList();
  }

  private static long end(Reservation reservation) {
    return reservation.expires().orElseThrow().nanos();
  }
}
