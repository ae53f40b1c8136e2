package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static berth.server.reservation.Box.askingNow;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.server.reservation.Box.Outcome;
import berth.server.reservation.Reservation.Owner;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Cleaners that remove or replace lock files never make two holders of one. */
class ReplacedLockFilesTest {
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
  void theKeeperOfATimedReservationHoldsTheNewFileToo() throws Exception {
    daemon.release(reserve(new Lifetime.Lasting(Duration.ofHours(1))).id());
    Reservation reservation = reserve(new Lifetime.Lasting(Duration.ofHours(1)));

    Files.delete(box.lock(0));

    await().until(() -> keepers(box.lock(0)) == 1);
    assertOnlyKeepersAreNeeded(reservation);
  }

  @Test
  void theKeeperOfAProcessHoldsTheNewFileToo() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    try {
      Reservation reservation = reserve(new Lifetime.OfProcess((int) job.pid()));

      Files.delete(box.lock(0));

      await().until(() -> keepers(box.lock(0)) == 1);
      assertOnlyKeepersAreNeeded(reservation);
    } finally {
      job.destroyForcibly();
    }
  }

  @Test
  void theKeeperOfARunHoldsTheNewFileTooWhateverItKnows() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    try {
      Reservation marked = reserve(new Lifetime.OfRun("run-a"));
      daemon.hold(marked.id(), "run-a", () -> {}).usedBy("nobody-has-this-word-in-his-command");
      Reservation running = reserve(new Lifetime.OfRun("run-b"));
      daemon.hold(running.id(), "run-b", () -> {}).livesBy((int) job.pid());

      Files.delete(box.lock(0));
      Files.delete(box.lock(1));

      await().until(() -> keepers(box.lock(0)) == 1 && keepers(box.lock(1)) == 1);
      daemon.close();
      assertThat(Fasteners.isFree(box.lock(0))).isFalse();
      assertThat(Fasteners.isFree(box.lock(1))).isFalse();
      // The keepers of an earlier daemon cannot be asked what they live by.
      daemon = box.daemon("d", "20000-20999");
      Files.delete(box.lock(1));
      await().until(() -> keepers(box.lock(1)) == 1);
      job.destroyForcibly().waitFor();
      await().until(() -> keepers(box.lock(1)) == 0);
      daemon.heldBy("run-a", () -> {}).orElseThrow().release();
      daemon.heldBy("run-b", () -> {}).ifPresent(RunHold::release);
      await().until(() -> Fasteners.isFree(box.lock(0)) && Fasteners.isFree(box.lock(1)));
    } finally {
      job.destroyForcibly();
    }
  }

  @Test
  void keepersThatCannotBeReplacedAtOnceAreReplacedLater() throws Exception {
    Reservation reservation = reserve(new Lifetime.Lasting(Duration.ofHours(1)));
    daemon.hold(reservation.id(), "run-a", () -> {}).usedBy("nobody-has-this-word");
    daemon.hold(reservation.id(), "run-b", () -> {}).usedBy("nobody-has-this-word");
    // Worse than a full disk, on which a record can be replaced where it stands.
    Path record = folder.resolve("states/d/" + reservation.id() + ".reservation");
    Files.delete(record);
    Files.createDirectory(record);

    Files.delete(box.lock(0));
    await()
        .during(Duration.ofMillis(500))
        .atMost(Duration.ofSeconds(60))
        .until(() -> Files.exists(box.lock(0)));
    assertThat(Fasteners.isFree(box.lock(0))).isFalse();
    Files.delete(record);

    await().atMost(Duration.ofSeconds(60)).until(() -> keepers(box.lock(0)) == 3);
    daemon.close();
    daemon = box.daemon("d", "20000-20999");
    daemon.heldBy("run-a", () -> {}).orElseThrow().release();
    daemon.heldBy("run-b", () -> {}).orElseThrow().release();
    daemon.release(reservation.id());
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  @Test
  void aFileThatIsRemovedTwiceIsKeptOverARestartUnderItsOwnName() throws Exception {
    Reservation reservation =
        Outcome.of(
                daemon,
                new ReservationRequest(
                    Optional.of(GpuWish.of(2)),
                    2,
                    Optional.empty(),
                    new Lifetime.Lasting(Duration.ofHours(1)),
                    new Owner("ada", "laptop"),
                    "",
                    ""))
            .get();
    Path ports = box.locks().resolve("tmp_lock_berth_ports");
    for (Path file : List.of(box.lock(0), ports, box.lock(0))) {
      Files.delete(file);
      await().until(() -> keepers(file) == 1);
    }

    daemon.close();
    daemon = box.daemon("d", "20000-20999");

    for (Path file : List.of(box.lock(0), box.lock(1), ports)) {
      assertThat(Fasteners.isFree(file)).isFalse();
    }
    Files.delete(box.lock(1));
    await().until(() -> keepers(box.lock(1)) == 1);
    daemon.release(reservation.id());
    for (Path file : List.of(box.lock(0), box.lock(1), ports)) {
      assertThat(Fasteners.isFree(file)).isTrue();
    }
  }

  @Test
  void whatAClaimHasGatheredIsGuardedWhileItWaits() throws Exception {
    Reservation first = Outcome.of(daemon, asking(1)).get();
    Outcome both = Outcome.of(daemon, asking(2)).awaitQueued();
    assertThat(daemon.overview().gathered()).containsExactly(1);

    Files.delete(box.lock(1));

    await().until(() -> Files.exists(box.lock(1)) && !Fasteners.isFree(box.lock(1)));
    daemon.release(first.id());
    assertThat(both.get().gpus()).hasSize(2);
    assertThat(Fasteners.isFree(box.lock(1))).isFalse();
  }

  @Test
  void whatSomebodyElseHasLockedUnderTheNameOfAGatheredFileIsNotGranted() throws Exception {
    Reservation first = Outcome.of(daemon, asking(1)).get();
    Outcome both = Outcome.of(daemon, asking(2)).awaitQueued();
    Path fresh = Files.createFile(box.locks().resolve("fresh"));
    try (Fasteners python = Fasteners.hold(fresh)) {
      assertThat(python.pid()).isPositive();
      Files.move(fresh, box.lock(1), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
      await().until(() -> daemon.overview().gathered().isEmpty());

      daemon.release(first.id());

      await().until(() -> daemon.overview().gathered().equals(List.of(0)));
      assertThat(both.isGranted()).isFalse();
    }
    both.get();
  }

  @Test
  void aLockOfSomebodyElseWhoseFileIsRemovedIsHeldInHisStead() throws Exception {
    try (Fasteners python = Fasteners.hold(box.lock(0))) {
      assertThat(python.pid()).isPositive();
      Files.delete(box.lock(0));
      await().until(() -> Files.exists(box.lock(0)));

      assertThat(Fasteners.isFree(box.lock(0))).isFalse();
      assertThatThrownBy(() -> Outcome.of(daemon, askingNow(2)).get())
          .hasMessage("2 GPUs asked, 1 idle");
    }
    await().until(() -> Fasteners.isFree(box.lock(0)));
    Outcome.of(daemon, askingNow(2)).get();
  }

  @Test
  void aLockFolderThatIsReplacedIsGuardedToo() throws Exception {
    reserve(new Lifetime.Lasting(Duration.ofHours(1)));

    Files.move(box.locks(), folder.resolve("elsewhere"));
    Files.createDirectory(box.locks());

    await().atMost(Duration.ofSeconds(60)).until(() -> keepers(box.lock(0)) == 1);
    Files.delete(box.lock(0));
    await().atMost(Duration.ofSeconds(60)).until(() -> keepers(box.lock(0)) == 1);
  }

  @Test
  void noPortIsGivenTwiceThoughTheirLockFileIsRemoved() throws Exception {
    Reservations few = box.daemon("few", "20200-20201");
    Reservations other = box.daemon("other", "20200-20201");
    Path file = box.locks().resolve("tmp_lock_berth_ports");
    ReservationRequest onePort =
        new ReservationRequest(
            Optional.empty(),
            1,
            Optional.of(Duration.ZERO),
            new Lifetime.Lasting(Duration.ofHours(1)),
            new Owner("ada", "laptop"),
            "",
            "");
    Reservation first = Outcome.of(few, onePort).get();

    Files.delete(file);
    Reservation second = Outcome.of(few, onePort).get();
    assertThat(second.ports()).isNotEqualTo(first.ports());
    await().until(() -> keepers(file) == 2);
    assertThatThrownBy(() -> other.reserve(onePort, new Outcome()))
        .hasMessage("1 ports asked, 0 free in 20200-20201");
    few.release(first.id());
    assertThat(Outcome.of(other, onePort).get().ports()).isEqualTo(first.ports());
  }

  private void assertOnlyKeepersAreNeeded(Reservation reservation) {
    daemon.close();
    assertThat(Fasteners.isFree(box.lock(0))).isFalse();
    daemon = box.daemon("d", "20000-20999");
    assertThat(daemon.overview().reservations())
        .extracting(Reservation::id)
        .containsExactly(reservation.id());
    daemon.release(reservation.id());
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
  }

  private Reservation reserve(Lifetime lifetime) {
    return Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), lifetime, "")).get();
  }

  /** How many other processes have the file open that stands under this name now. */
  private static long keepers(Path file) throws IOException {
    if (!Files.exists(file)) {
      return 0;
    }
    Object identity = Files.readAttributes(file, "unix:ino,dev");
    return ProcessHandle.current()
        .children()
        .filter(
            child -> {
              try (Stream<Path> open = Files.list(Path.of("/proc/" + child.pid() + "/fd"))) {
                return open.anyMatch(fd -> Objects.equals(identity(fd), identity));
              } catch (IOException | java.io.UncheckedIOException e) {
                return false;
              }
            })
        .count();
  }

  private static Object identity(Path path) {
    try {
      return Files.readAttributes(path, "unix:ino,dev");
    } catch (IOException e) {
      return null;
    }
  }
}
