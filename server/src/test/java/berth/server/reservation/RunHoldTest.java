package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.server.reservation.Box.Outcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a run holds, however its reservation and its daemon end. */
class RunHoldTest {
  @TempDir private Path folder;
  private Box box;
  private Reservations daemon;

  @BeforeEach
  void open() {
    box = new Box(folder, Box.gpus(2));
    daemon = box.daemon("d", "20000-20999");
  }

  @AfterEach
  void close() {
    box.close();
  }

  @Test
  void aReservationOfARunEndsWithIt() {
    RunHold hold = forRun("run-a");
    assertThat(daemon.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.runIds()).containsExactly("run-a"));

    hold.release();

    assertThat(daemon.overview().reservations()).isEmpty();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void cannotBeReleasedByAnybodyElse() {
    RunHold hold = forRun("run-a");

    assertThatThrownBy(() -> daemon.release(hold.reservation().id()))
        .hasMessage(hold.reservation().id() + " is used by run-a; it is free when that has ended");
    hold.release();
  }

  @Test
  void aReservationThatEndsIsFreeOnlyWhenItsRunsHaveEnded() throws Exception {
    Outcome outcome = asking(new Lifetime.OfStream());
    Reservation granted = outcome.get();
    CompletableFuture<Void> told = new CompletableFuture<>();
    RunHold first = daemon.hold(granted.id(), "run-a", () -> told.complete(null));
    RunHold second = daemon.hold(granted.id(), "run-b", () -> {});

    outcome.leave();

    told.get(5, TimeUnit.SECONDS);
    first.release();
    assertThat(Fasteners.isFree(box.lock(0))).isFalse();
    assertThatThrownBy(() -> daemon.hold(granted.id(), "run-c", () -> {}))
        .hasMessageContaining("has ended");
    second.release();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
    outcome.awaitEnd();
  }

  @Test
  void aRunLetsGoAlsoWhileThatCannotBeWrittenDown() throws Exception {
    Outcome outcome = asking(new Lifetime.Lasting(Duration.ofMinutes(1)));
    RunHold hold = daemon.hold(outcome.get().id(), "run-a", () -> {});
    // Worse than a full disk, on which a record can be replaced where it stands.
    Path record = folder.resolve("states/d/" + outcome.get().id() + ".reservation");
    Files.delete(record);
    Files.createDirectory(record);

    hold.release();

    assertThat(daemon.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.runIds()).isEmpty());
    daemon.release(outcome.get().id());
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void aLeaseThatIsOverFreesNothingThatARunUses() throws Exception {
    Reservation granted = asking(new Lifetime.Lasting(Duration.ofMillis(300))).get();
    CompletableFuture<Void> told = new CompletableFuture<>();
    RunHold hold = daemon.hold(granted.id(), "run-a", () -> told.complete(null));

    told.get(5, TimeUnit.SECONDS);
    // The lease and its keeper end at about the same time, each on its own.
    await()
        .during(Duration.ofMillis(500))
        .atMost(Duration.ofSeconds(5))
        .until(() -> !Fasteners.isFree(box.lock(0)));

    hold.release();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void everyRunIsToldOfTheEndThoughOneDoesNotWantToHearOfIt() throws Exception {
    Reservation granted = asking(new Lifetime.Lasting(Duration.ofMillis(500))).get();
    CountDownLatch again = new CountDownLatch(2);
    CompletableFuture<Void> told = new CompletableFuture<>();
    RunHold first =
        daemon.hold(
            granted.id(),
            "run-a",
            () -> {
              again.countDown();
              if (again.getCount() > 0) {
                throw new StackOverflowError();
              }
            });
    RunHold second = daemon.hold(granted.id(), "run-b", () -> told.complete(null));

    told.get(60, TimeUnit.SECONDS);
    assertThat(again.await(60, TimeUnit.SECONDS)).isTrue();
    first.release();
    second.release();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void aReservationGoesOnAfterTheRunsInIt() {
    Reservation granted = asking(new Lifetime.Lasting(Duration.ofMinutes(1))).get();
    daemon.hold(granted.id(), "run-a", () -> {}).release();

    assertThat(daemon.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.runIds()).isEmpty());
    daemon.release(granted.id());
  }

  @Test
  void theNextDaemonFindsTheHoldOfARunWhoseProcessIsNotKnownYet() {
    forRun("run-a").usedBy("nobody-has-this-word-in-his-command");

    Reservations next = restart();

    assertThat(Fasteners.isFree(box.lock(0))).isFalse();
    Optional<RunHold> found = next.heldBy("run-a", () -> {});
    assertThat(found).isPresent();
    found.get().release();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void theLocksGoWithTheProcessOfARunIfNoDaemonIsThere() throws Exception {
    Process job = new ProcessBuilder("sleep", "100").start();
    RunHold hold = forRun("run-a");
    hold.usedBy("anything");
    hold.livesBy((int) job.pid());
    assertThat(heldAfterRestart(daemon)).isTrue();

    job.destroyForcibly().waitFor();

    await().atMost(Duration.ofSeconds(5)).until(() -> !heldAfterRestart(daemon));
  }

  @Test
  void aRestartedDaemonTellsTheKeeperOfTheProcess() throws Exception {
    Process job = new ProcessBuilder("sleep", "100").start();
    forRun("run-a").usedBy("anything");
    Reservations next = restart();
    next.heldBy("run-a", () -> {}).orElseThrow().livesBy((int) job.pid());
    assertThat(heldAfterRestart(next)).isTrue();

    job.destroyForcibly().waitFor();

    await().atMost(Duration.ofSeconds(5)).until(() -> !heldAfterRestart(next));
  }

  @Test
  void whatLivedByAStreamEndsWithItsRunAfterARestart() throws Exception {
    Reservation granted = asking(new Lifetime.OfStream()).get();
    daemon.hold(granted.id(), "run-a", () -> {});

    Reservations next = restart();

    CompletableFuture<Void> told = new CompletableFuture<>();
    RunHold hold = next.heldBy("run-a", () -> told.complete(null)).orElseThrow();
    told.get(5, TimeUnit.SECONDS);
    hold.release();
    assertThat(next.overview().reservations()).isEmpty();
  }

  // This process has the locks too until it ends, so the keeper is asked for.
  private boolean heldAfterRestart(Reservations running) {
    running.close();
    try (Reservations next = box.daemon("d", "20000-20999")) {
      return next.heldBy("run-a", () -> {}).isPresent();
    }
  }

  private Reservations restart() {
    daemon.close();
    return box.daemon("d", "20000-20999");
  }

  private RunHold forRun(String id) {
    return daemon.hold(asking(new Lifetime.OfRun(id)).get().id(), id, () -> {});
  }

  private Outcome asking(Lifetime lifetime) {
    return Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), lifetime, ""));
  }
}
