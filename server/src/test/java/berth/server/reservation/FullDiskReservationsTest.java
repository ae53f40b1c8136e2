package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.Kept;
import berth.host.state.RecordFile;
import berth.host.state.SmallDisk;
import berth.server.reservation.Box.Outcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A disk that is full at one state of a reservation: what was acknowledged holds, also for the next
 * daemon, and no GPU is held twice. {@code TroubleOfTheServerTest} has those that wait, are renewed
 * and are released.
 */
class FullDiskReservationsTest {
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Duration MOMENT = Duration.ofSeconds(1);
  private static final Lifetime HOUR = new Lifetime.Lasting(Duration.ofHours(1));

  @TempDir private Path folder;
  private Path state;
  private Box box;
  private SmallDisk disk;
  private Reservations daemon;

  @BeforeEach
  void open() throws IOException {
    box = new Box(folder, Box.gpus(2));
    state = Files.createDirectory(folder.resolve("states/full"));
    disk = new SmallDisk(state);
    start();
  }

  @AfterEach
  void close() {
    box.close();
    disk.close();
  }

  @Test
  void aLeaseThatEndsFreesItsGpuAndDoesNotComeBack() throws Exception {
    Outcome lease = ask(HOUR);
    String id = lease.get().id();
    disk.fill();
    daemon.renew(id, Optional.of(MOMENT));

    lease.awaitEnd();

    assertAllAreFreeNowAndAfterARestart();
  }

  @Test
  void aLeaseThatEndsWhileNoDaemonRunsDoesNotComeBack() throws Exception {
    String id = ask(HOUR).get().id();
    disk.fill();
    daemon.renew(id, Optional.of(MOMENT));
    daemon.close();
    awaitEndOfKeeper();

    start();

    // The GPU itself stays locked by this process, which the closed daemon has not left.
    assertThat(heldIds()).isEmpty();
    assertThat(records()).isEmpty();
  }

  @Test
  void aProcessThatEndsFreesItsGpuAndItsReservationDoesNotComeBack() throws Exception {
    Process process = new ProcessBuilder("sleep", "1000").start();
    try {
      Outcome held = ask(new Lifetime.OfProcess((int) process.pid()));
      held.get();
      disk.fill();
      process.destroyForcibly();

      held.awaitEnd();

      assertAllAreFreeNowAndAfterARestart();
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  void aProcessThatEndsWhileNoDaemonRunsLeavesNoReservation() throws Exception {
    Process process = new ProcessBuilder("sleep", "1000").start();
    try {
      String id = ask(new Lifetime.OfProcess((int) process.pid())).get().id();
      disk.fill();
      daemon.close();
      start();
      assertThat(heldIds()).containsExactly(id);
      daemon.close();
      process.destroyForcibly().waitFor();
      awaitEndOfKeeper();

      start();

      assertThat(heldIds()).isEmpty();
      assertThat(records()).isEmpty();
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  void aDrainThatWasAcknowledgedIsOneAfterARestartAndSoIsItsEnd() throws Exception {
    String id = ask(HOUR).get().id();
    disk.fill();

    assertThat(daemon.setDraining(true)).isEqualTo(1);

    daemon.close();
    start();
    assertThat(daemon.overview().draining()).isTrue();
    assertThat(heldIds()).containsExactly(id);
    daemon.setDraining(false);
    daemon.close();
    start();
    assertThat(daemon.overview().draining()).isFalse();
    assertThat(heldIds()).containsExactly(id);
  }

  @Test
  void whoseTurnComesWhenTheDiskIsFullIsGrantedWhenThereIsRoom() throws Exception {
    Reservation holder = Outcome.of(daemon, asking(2)).get();
    Outcome waiting = ask(HOUR).awaitQueued();
    disk.fill();

    daemon.release(holder.id());

    await()
        .atMost(PATIENCE)
        .until(() -> waiting.reasons().stream().anyMatch(why -> why.contains("No space left")));
    assertThat(waiting.isGranted()).isFalse();
    assertThat(heldIds()).isEmpty();
    assertThat(records()).isEmpty();
    disk.empty();
    String id = waiting.get().id();
    daemon.close();
    start();
    assertThat(heldIds()).containsExactly(id);
    daemon.release(id);
    assertAllAreFreeNowAndAfterARestart();
  }

  @Test
  void whatIsHeldIsHeldAfterARestartAndRenewedAndReleasedWhenThereIsRoom() throws Exception {
    String id = ask(HOUR).get().id();
    disk.fill();
    daemon.close();

    start();

    assertThat(heldIds()).containsExactly(id);
    Outcome both = Outcome.of(daemon, asking(2)).awaitQueued();
    assertThat(both.isGranted()).isFalse();
    assertThat(Fasteners.isFree(box.lock(0))).isFalse();
    both.leave();
    disk.empty();
    daemon.renew(id, Optional.of(Duration.ofHours(3)));
    daemon.close();
    start();
    assertThat(daemon.overview().reservations())
        .singleElement()
        .satisfies(
            held -> {
              long nanos = held.expires().orElseThrow().nanos() - System.nanoTime();
              assertThat(Duration.ofNanos(nanos)).isGreaterThan(Duration.ofHours(2));
            });
    daemon.release(id);
    assertAllAreFreeNowAndAfterARestart();
  }

  private void start() {
    daemon = box.daemon("full", "20000-20999");
  }

  private Outcome ask(Lifetime lifetime) {
    GpuWish first = new GpuWish(0, List.of("GPU-0"), 0, "");
    return Outcome.of(daemon, Box.request(first, Optional.empty(), lifetime, ""));
  }

  private void assertAllAreFreeNowAndAfterARestart() throws IOException {
    for (int i = 0; i < 2; i++) {
      await().atMost(PATIENCE).until(() -> heldIds().isEmpty());
      // One that lives by renewals needs no room.
      Reservation both = Outcome.of(daemon, asking(2)).get();
      Outcome third = Outcome.of(daemon, asking(1)).awaitQueued();
      assertThat(third.isGranted()).isFalse();
      assertThat(heldIds()).containsExactly(both.id());
      assertThat(records()).isEmpty();
      daemon.close();
      start();
      assertThat(heldIds()).isEmpty();
    }
  }

  private void awaitEndOfKeeper() throws IOException {
    String keeper = RecordFile.readProperties(records().get(0)).getProperty("keeper");
    await().atMost(PATIENCE).until(() -> Kept.living(keeper).isEmpty());
  }

  private List<String> heldIds() {
    return daemon.overview().reservations().stream().map(Reservation::id).toList();
  }

  private List<Path> records() throws IOException {
    try (Stream<Path> files = Files.list(state)) {
      return files.filter(file -> file.getFileName().toString().startsWith("r-")).toList();
    }
  }
}
