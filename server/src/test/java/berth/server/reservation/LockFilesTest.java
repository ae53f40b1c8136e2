package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static berth.server.reservation.Box.askingNow;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.LockFolder;
import berth.server.reservation.Box.Outcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The lock files on disk, against the real fasteners package and against what befalls files. */
class LockFilesTest {
  @TempDir private Path folder;
  private Box box;
  private Reservations daemon;

  @BeforeEach
  void open() {
    box = new Box(folder, Box.gpus(2));
    daemon = box.daemon();
  }

  @AfterEach
  void close() {
    box.close();
  }

  @Test
  void aGpuThatFastenersHoldsIsNotOurs() {
    try (Fasteners python = Fasteners.hold(box.lock(1))) {
      assertThatThrownBy(() -> Outcome.of(daemon, askingNow(2)).get())
          .hasMessage("2 GPUs asked, 1 idle");
      assertThat(daemon.overview().lockedByOthers())
          .singleElement()
          .satisfies(
              other -> {
                assertThat(other.index()).isEqualTo(1);
                assertThat(other.pid()).isEqualTo(OptionalInt.of((int) python.pid()));
                assertThat(other.description()).contains("fasteners_locks.py");
              });
    }
    Outcome.of(daemon, askingNow(2)).get();
  }

  @Test
  void aGpuThatWeHoldIsBusyForFasteners() {
    Reservation reservation =
        Outcome.of(daemon, asking(new GpuWish(0, List.of("1"), 0, ""), Optional.empty())).get();

    assertThat(Fasteners.isFree(box.lock(1))).isFalse();
    assertThat(Fasteners.isFree(box.lock(0))).isTrue();
    daemon.release(reservation.id());
    assertThat(Fasteners.isFree(box.lock(1))).isTrue();
  }

  @Test
  void theSystemLockIsRespectedBothWays() {
    Fasteners python = Fasteners.hold(box.systemLock());
    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
        .hasMessage("1 GPU asked, but others are waiting already");
    Outcome waiting = Outcome.of(daemon, asking(2));
    assertThat(waiting.isGranted()).isFalse();
    python.close();
    waiting.get();
    // Whoever is next holds the system lock, so nobody overtakes it.
    Outcome.of(daemon, asking(1)).awaitQueued();
    assertThat(Fasteners.isFree(box.systemLock())).isFalse();
  }

  @Test
  void aReleaseByAForeignProcessHandsOver() {
    Fasteners python = Fasteners.hold(box.lock(0), box.lock(1));
    Outcome waiting = Outcome.of(daemon, asking(2)).awaitQueued();
    python.close();
    waiting.get();
  }

  @Test
  void theDeathOfAForeignProcessHandsOver() {
    Fasteners python = Fasteners.hold(box.lock(0), box.lock(1));
    Outcome waiting = Outcome.of(daemon, asking(2)).awaitQueued();
    python.kill();
    waiting.get();
  }

  @Test
  void aRemovedLockFileDoesNotFreeAHeldGpu() throws Exception {
    Reservation reservation = Outcome.of(daemon, asking(2)).get();
    Reservations other = box.daemon();

    Files.delete(box.lock(1));

    assertThatThrownBy(() -> Outcome.of(other, askingNow(1)).get())
        .hasMessage("1 GPU asked, 0 idle");
    await().until(() -> Files.exists(box.lock(1)));
    await().until(() -> !Fasteners.isFree(box.lock(1)));
    daemon.release(reservation.id());
    assertThat(Fasteners.isFree(box.lock(1))).isTrue();
    Outcome.of(other, askingNow(2)).get();
  }

  @Test
  void aReplacedLockFileDoesNotFreeAHeldGpu() throws Exception {
    Outcome.of(daemon, asking(2)).get();
    Path fresh = Files.createFile(box.locks().resolve("fresh"));

    Files.move(fresh, box.lock(0), StandardCopyOption.REPLACE_EXISTING);

    await().until(() -> !Fasteners.isFree(box.lock(0)));
    assertThatThrownBy(() -> Outcome.of(box.daemon(), askingNow(1)).get())
        .hasMessage("1 GPU asked, 0 idle");
  }

  @Test
  void aMissingLockFolderIsRefusedByName() {
    assertThatThrownBy(() -> new LockFolder(folder.resolve("nowhere")))
        .hasMessage("the lock folder " + folder.resolve("nowhere") + " does not exist");
  }

  @Test
  void aLockFolderThatVanishesIsAClearErrorForEveryRequest() throws Exception {
    Files.move(box.locks(), folder.resolve("elsewhere"));

    assertThatThrownBy(() -> daemon.reserve(askingNow(1), new Outcome()))
        .hasMessage(
            "cannot make the lock file "
                + box.locks().resolve("tmp_lock_berth_queue")
                + ": the folder "
                + box.locks()
                + " does not exist");
  }

  @Test
  void lockFilesAreForEveryUserOfTheMachine() throws Exception {
    Outcome.of(daemon, asking(1)).get();

    for (String name :
        List.of("tmp_lock_sysgpus", "tmp_lock_gpu0", "tmp_lock_gpu1", "tmp_lock_berth_queue")) {
      assertThat(
              PosixFilePermissions.toString(
                  Files.getPosixFilePermissions(box.locks().resolve(name))))
          .isEqualTo("rw-rw-rw-");
    }
  }

  @Test
  void aSymbolicLinkInPlaceOfALockFileIsNotFollowed() throws Exception {
    Path victim = Files.writeString(folder.resolve("victim"), "precious");
    Files.delete(box.lock(0));
    Files.createSymbolicLink(box.lock(0), victim);

    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(2)).get())
        .hasMessageStartingWith("cannot open the lock file " + box.lock(0));
    assertThat(victim).hasContent("precious");
  }
}
