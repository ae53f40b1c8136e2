package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.Keeper;
import berth.host.lock.KernelFiles;
import berth.host.lock.LockFile;
import berth.host.lock.LockFolder;
import berth.host.lock.LockWait;
import berth.host.state.DurableFiles;
import berth.rpc.BerthException;
import berth.rpc.Vitals;
import berth.server.reservation.Box.Outcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a daemon finds of the reservations of an earlier one, whatever became of the disk. */
class ReservationStoreTest {
  private static final Lifetime HOUR = new Lifetime.Lasting(Duration.ofHours(1));

  @TempDir private Path folder;
  private Box box;
  private Reservations daemon;

  @BeforeEach
  void open() {
    box = new Box(folder, Box.gpus(3));
    daemon = box.daemon("d", "20000-20999");
  }

  @AfterEach
  void close() {
    box.close();
  }

  @Test
  void aDamagedRecordIsSetAsideAndConcernsNobodyElse() throws Exception {
    Reservation first = reserve(HOUR);
    Reservation second = reserve(HOUR);
    Path record = record(first);
    byte[] whole = Files.readAllBytes(record);
    byte[] garbage = new byte[whole.length];
    new Random(1).nextBytes(garbage);
    byte[] flipped = whole.clone();
    flipped[whole.length / 3] ^= 1;
    List<byte[]> damages =
        Stream.concat(
                Stream.of(garbage, flipped, new byte[whole.length], new byte[] {(byte) 0xff}),
                Stream.iterate(0, i -> i < 64, i -> i + 1)
                    .map(i -> Arrays.copyOf(whole, i * whole.length / 64)))
            .toList();
    daemon.close();

    for (byte[] damage : damages) {
      Files.write(record, damage);
      Reservations next = box.daemon("d", "20000-20999");
      assertThat(next.overview().reservations())
          .extracting(Reservation::id)
          .containsExactly(second.id());
      // Its keeper goes on, so nobody else gets the GPU.
      assertThat(next.overview().lockedByOthers()).hasSize(1);
      next.close();
      Path aside = setAside();
      assertThat(Files.readAllBytes(aside)).isEqualTo(damage);
      Files.delete(aside);
    }

    Files.write(record, whole);
    assertThat(box.daemon("d", "20000-20999").overview().reservations()).hasSize(2);
  }

  @Test
  void whatIsNoFileOrNotItsOwnRecordDoesNotKeepTheDaemonFromStarting() throws Exception {
    Reservation first = reserve(HOUR);
    daemon.close();
    Path state = folder.resolve("states/d");
    Files.createDirectory(state.resolve("r-folder.reservation"));
    Files.createSymbolicLink(state.resolve("r-link.reservation"), Path.of("/etc/passwd"));
    Files.copy(record(first), state.resolve("r-copy.reservation"));

    assertThat(box.daemon("d", "20000-20999").overview().reservations())
        .extracting(Reservation::id)
        .containsExactly(first.id());
  }

  @Test
  void aDrainThatCouldNotBeWrittenDownIsNoneAfterARestart(@TempDir Path state) {
    DurableFiles disk = new DurableFiles(new Vitals());
    try (ReservationStore store = new ReservationStore(state, disk)) {
      disk.close();
      assertThatThrownBy(() -> store.setDraining(true)).isInstanceOf(BerthException.class);
      assertThat(store.draining()).isFalse();
    }
  }

  @Test
  void theLeaseAfterRestartsIsTheOneThatWasAskedFor() {
    Reservation reservation = reserve(HOUR);
    String id = reservation.id();
    daemon.renew(id, Optional.of(Duration.ofMinutes(20)));
    for (int restart = 0; restart < 3; restart++) {
      daemon.close();
      daemon = box.daemon("d", "20000-20999");
      Reservation renewed = daemon.renew(id, Optional.empty());
      assertThat(left(renewed)).isBetween(Duration.ofMinutes(19), Duration.ofMinutes(20));
    }
  }

  @Test
  void thatItsHolderRenewsItIsKnownAfterARestart() {
    String renewed = reserve(new Lifetime.Lasting(Duration.ofMinutes(5), true)).id();
    String timed = reserve(HOUR).id();
    daemon.renew(renewed, Optional.empty());
    daemon.renew(timed, Optional.empty());
    daemon.close();
    daemon = box.daemon("d", "20000-20999");

    assertThat(daemon.overview().reservations())
        .filteredOn(Reservation::renewed)
        .extracting(Reservation::id)
        .containsExactly(renewed);
  }

  @Test
  void aWallClockThatWasSetSaysNothingAboutTheEnd() throws Exception {
    Reservation reservation = reserve(HOUR);
    Path record = record(reservation);
    daemon.close();
    // As if the clock had been a year ahead at the grant.
    String text = new String(berth.host.state.RecordFile.read(record), "UTF-8");
    String moved =
        text.replaceAll("(?m)^(granted|expires)=\\d{4}", "$1=2099").replaceAll("\\\\", "\\\\");
    try (var files = new berth.host.state.DurableFiles(new berth.rpc.Vitals())) {
      files.write(record, moved.getBytes("UTF-8"));
    }

    daemon = box.daemon("d", "20000-20999");

    Reservation found = daemon.overview().reservations().get(0);
    assertThat(left(found)).isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
    assertThat(found.expires().orElseThrow().wall())
        .isBetween(java.time.Instant.now(), java.time.Instant.now().plus(Duration.ofHours(1)));
    assertThat(left(daemon.renew(found.id(), Optional.empty())))
        .isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
  }

  @Test
  void aRecordWhoseKeeperHasEndedIsDropped() throws Exception {
    Reservation reservation = reserve(HOUR);
    ProcessHandle keeper = keeper();
    daemon.close();

    // As a daemon that is killed in the middle of a release leaves it.
    keeper.destroyForcibly();
    await().until(() -> !alive(keeper));
    daemon = box.daemon("d", "20000-20999");

    assertThat(daemon.overview().reservations()).isEmpty();
    assertThat(record(reservation)).doesNotExist();
  }

  @Test
  void aReleaseEndsTheKeeperThenTheRecordThenTheLocks() throws Exception {
    Reservation reservation = reserve(HOUR);
    ProcessHandle keeper = keeper();
    Path record = record(reservation);
    CompletableFuture<Boolean> keeperWithoutRecord =
        CompletableFuture.supplyAsync(
            () -> {
              while (Files.exists(record)) {
                Thread.onSpinWait();
              }
              return alive(keeper);
            });
    CompletableFuture<Boolean> recordWithoutLock =
        CompletableFuture.supplyAsync(
            () -> {
              try (LockFile lock = LockFolder.lock(box.lock(0), new LockWait()).orElseThrow()) {
                return lock.fd() >= 0 && Files.exists(record);
              }
            });

    daemon.release(reservation.id());

    assertThat(keeperWithoutRecord.get(60, TimeUnit.SECONDS)).isFalse();
    assertThat(recordWithoutLock.get(60, TimeUnit.SECONDS)).isFalse();
  }

  @Test
  void aKeeperWithoutTheLockMakesNoReservation() throws Exception {
    Reservation reservation = reserve(HOUR);
    ProcessHandle keeper = keeper();
    daemon.close();
    // As daemons of old left it that were killed in the middle of a release: unlocked, and locked
    // by somebody else since.
    Keeper known = new Keeper((int) keeper.pid(), startOf(keeper));
    for (int fd : known.share(descriptors(keeper)).orElseThrow()) {
      LockFile.adopt(box.lock(0), fd).unlock();
    }
    try (Fasteners python = Fasteners.hold(box.lock(0))) {
      assertThat(python.pid()).isPositive();
      daemon = box.daemon("d", "20000-20999");

      assertThat(daemon.overview().reservations()).isEmpty();
      assertThat(record(reservation)).doesNotExist();
      assertThat(alive(keeper)).isFalse();
    }
  }

  @Test
  void aReservationDoesNotLiveByALaterProcessOfTheSameId() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    try {
      int pid = (int) job.pid();
      // The process that has the id now is not the one that was meant.
      assertThatThrownBy(() -> reserve(new Lifetime.OfProcess(pid, 1)))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("has ended");
      Reservation reservation = reserve(new Lifetime.OfProcess(pid));
      Path record = record(reservation);
      daemon.close();
      String text = new String(berth.host.state.RecordFile.read(record), "UTF-8");
      try (var files = new berth.host.state.DurableFiles(new berth.rpc.Vitals())) {
        files.write(
            record, text.replaceAll("process.started=\\d+", "process.started=1").getBytes("UTF-8"));
      }

      daemon = box.daemon("d", "20000-20999");

      assertThat(daemon.overview().reservations()).isEmpty();
      assertThat(record).doesNotExist();
    } finally {
      job.destroyForcibly();
    }
  }

  @Test
  void aRunThatCouldNotBeWrittenDownDoesNotKeepTheReservationFromItsOwner() throws Exception {
    Reservation reservation = reserve(new Lifetime.Renewals(Duration.ofMinutes(10)));
    Files.createDirectory(record(reservation));

    assertThatThrownBy(() -> daemon.hold(reservation.id(), "run-a", () -> {}))
        .hasMessageContaining("cannot use the state folder");

    daemon.release(reservation.id());
    assertThat(daemon.overview().reservations()).isEmpty();
  }

  @Test
  void theEndOfAnOldStreamDoesNotEndWhatItsRetryHasGot() {
    ReservationRequest request =
        Box.request(GpuWish.of(1), Optional.empty(), new Lifetime.OfStream(), "job-1");
    Outcome old = Outcome.of(daemon, request);
    Reservation reservation = old.get();
    Outcome retry = Outcome.of(daemon, request);
    assertThat(retry.get()).isEqualTo(reservation);

    old.leave();
    assertThat(daemon.overview().reservations()).containsExactly(reservation);

    retry.leave();
    assertThat(daemon.overview().reservations()).isEmpty();
  }

  @Test
  void nobodyElseCanEnterTheStateFolder() throws Exception {
    Path state = folder.resolve("states/d");
    reserve(HOUR);

    assertThat(permissions(state)).isEqualTo("rwx------");
    assertThat(permissions(state.resolve("lock"))).isEqualTo("rw-------");
    daemon.close();
    Files.setPosixFilePermissions(state, PosixFilePermissions.fromString("rwxr-xr-x"));
    Files.setPosixFilePermissions(
        state.resolve("lock"), PosixFilePermissions.fromString("rw-rw-rw-"));
    daemon = box.daemon("d", "20000-20999");
    assertThat(permissions(state)).isEqualTo("rwx------");
    assertThat(permissions(state.resolve("lock"))).isEqualTo("rw-------");
    try (Stream<Path> files = Files.list(state)) {
      assertThat(files.filter(Files::isRegularFile)).allMatch(f -> readableByOwnerOnly(f));
    }
  }

  private static boolean readableByOwnerOnly(Path file) {
    try {
      return permissions(file).equals("rw-------");
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static String permissions(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }

  private Path setAside() throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve("states/d"))) {
      return files
          .filter(file -> file.getFileName().toString().startsWith("damaged-"))
          .reduce((a, b) -> null)
          .orElseThrow();
    }
  }

  private Reservation reserve(Lifetime lifetime) {
    return Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), lifetime, "")).get();
  }

  private Path record(Reservation reservation) {
    return folder.resolve("states/d").resolve(reservation.id() + ".reservation");
  }

  private static Duration left(Reservation reservation) {
    return Duration.ofNanos(reservation.expires().orElseThrow().nanos() - System.nanoTime());
  }

  private ProcessHandle keeper() {
    return ProcessHandle.current()
        .children()
        .filter(child -> descriptors(child).size() == 1)
        .findFirst()
        .orElseThrow();
  }

  /** The descriptors of lock files of this box that a process has. */
  private List<Integer> descriptors(ProcessHandle process) {
    try (Stream<Path> open = Files.list(Path.of("/proc/" + process.pid() + "/fd"))) {
      return open.filter(
              fd -> {
                try {
                  return Files.readSymbolicLink(fd).startsWith(box.locks());
                } catch (IOException e) {
                  return false;
                }
              })
          .map(fd -> Integer.valueOf(fd.getFileName().toString()))
          .toList();
    } catch (IOException e) {
      return List.of();
    }
  }

  private static boolean alive(ProcessHandle process) {
    return KernelFiles.startOf((int) process.pid()).isPresent();
  }

  private static long startOf(ProcessHandle process) {
    return KernelFiles.startOf((int) process.pid()).orElseThrow();
  }
}
