package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static berth.server.reservation.Box.askingNow;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.LibC;
import berth.host.lock.LockFile;
import berth.host.state.SmallDisk;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Box.Outcome;
import berth.server.reservation.Reservation.Owner;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What is wrong with the server ends no request: it keeps its place, is told, and goes on. */
class TroubleOfTheServerTest {
  private static final String UNREADABLE = "init 9\n" + Box.gpus(2);

  private static final String LOST_FROM_THE_START =
      Box.gpus(2).replace("gpu GPU-0\n", "gpu GPU-0\n  status 15\n");
  private static final Optional<Duration> FOR_EVER = Optional.empty();
  private static final Lifetime OF_RUN_B = new Lifetime.OfRun("run-b");

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
  void whoWaitsForALostGpuKeepsItsPlaceAndIsToldWhy() throws Exception {
    Reservation holder = Outcome.of(daemon, asking(1)).get();
    Outcome first = Outcome.of(daemon, asking(2)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(1)).awaitQueued();

    box.describe(Box.gpus(2).replace("gpu GPU-1", "gpu GPU-1\n  status 15"));
    await().until(() -> lastReason(second).startsWith("GPU 1 is lost: "));
    assertThat(lastReason(first)).isEqualTo(lastReason(second));
    assertThat(daemon.overview().waiting())
        .extracting(Overview.Waiting::because)
        .containsOnly(lastReason(first));
    daemon.release(holder.id());
    assertThat(first.isGranted()).isFalse();
    assertThat(second.isGranted()).isFalse();

    box.describe(Box.gpus(2));

    Reservation both = first.get();
    assertThat(both.gpus()).hasSize(2);
    daemon.release(both.id());
    second.get();
  }

  @Test
  void aDriverThatCannotBeReadEndsNoWaitAndMakesNothingImpossible() throws Exception {
    Outcome.of(daemon, asking(2)).get();
    Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();

    box.describe(UNREADABLE);
    await().until(() -> lastReason(waiting).contains("cannot be read"));
    // Who wants an answer at once gets one, and not that it should never ask again.
    assertThatThrownBy(() -> daemon.reserve(askingNow(99), new Outcome()))
        .hasMessageContaining("the GPUs of this server cannot be read: ")
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE));
    Outcome late = Outcome.of(daemon, asking(2)).awaitQueued();

    box.describe(Box.gpus(2));
    daemon.release(daemon.overview().reservations().get(0).id());
    daemon.release(waiting.get().id());
    late.get();
  }

  @Test
  void afterABootWithALateDriverRunsThatWereAcceptedWaitAndOthersAreSentAway() throws Exception {
    box.describe(UNREADABLE);
    Reservations booted = box.daemon();

    Outcome recovered =
        Outcome.of(
            booted, Box.request(GpuWish.of(2), Optional.empty(), new Lifetime.OfRun("run-a"), ""));
    Outcome larger =
        Outcome.of(
            booted, Box.request(GpuWish.of(3), Optional.empty(), new Lifetime.OfRun("run-b"), ""));
    assertThatThrownBy(() -> booted.reserve(asking(1), new Outcome()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE));
    assertThatThrownBy(() -> booted.check(Optional.of(GpuWish.of(1)), 0, Optional.empty()))
        .isInstanceOf(BerthException.class);
    await().until(() -> lastReason(recovered).contains("cannot be read"));

    box.describe(Box.gpus(2));

    booted.hold(recovered.get().id(), "run-a", () -> {}).release();
    // It was accepted when the server had more.
    await().until(() -> lastReason(larger).equals("3 GPUs asked, this server shows 2 now"));
    box.describe(Box.gpus(3));
    larger.get();
  }

  @Test
  void runsThatWereAcceptedWhenTheServerHadMoreGpusWait() throws Exception {
    try (Box other = new Box(Files.createDirectory(folder.resolve("other")), Box.gpus(1))) {
      Reservations server = other.daemon();
      GpuWish second = new GpuWish(0, List.of("GPU-1"), 0, "");

      Outcome both =
          Outcome.of(server, Box.request(GpuWish.of(2), FOR_EVER, new Lifetime.OfRun("run-a"), ""));
      Outcome one = Outcome.of(server, Box.request(second, FOR_EVER, OF_RUN_B, ""));
      await().until(() -> lastReason(both).equals("2 GPUs asked, this server shows 1 now"));
      assertThatThrownBy(() -> server.check(Optional.of(GpuWish.of(2)), 0, FOR_EVER))
          .hasMessage("2 GPUs asked, this server has 1");
      assertThatThrownBy(() -> server.reserve(asking(2), new Outcome()))
          .hasMessage("2 GPUs asked, this server has 1");
      both.leave();
      await().until(() -> lastReason(one).equals("1 GPU (GPU-1) asked, this server shows 1 now"));
      other.describe(Box.gpus(2));

      one.get();
    }
  }

  @Test
  void whatCameWhileNothingWasKnownIsRefusedIfItTurnsOutToBeImpossible() throws Exception {
    box.describe(UNREADABLE);
    Outcome tooMany = Outcome.of(daemon, asking(99)).awaitQueued();

    box.describe(Box.gpus(2));

    assertThatThrownBy(tooMany::get).hasMessage("99 GPUs asked, this server has 2");
  }

  @Test
  void aLostGpuThatDoesNotSayItsNameMayBeWhatIsAskedFor() throws Exception {
    try (Box other = new Box(Files.createDirectory(folder.resolve("other")), LOST_FROM_THE_START)) {
      Reservations server = other.daemon();

      Outcome model = Outcome.of(server, asking(new GpuWish(2, List.of(), 0, "A100"), FOR_EVER));
      model.awaitQueued();
      assertThat(lastReason(model)).startsWith("GPU 0 is lost");
      Outcome uuid = Outcome.of(server, exactly("GPU-0")).awaitQueued();
      assertThatThrownBy(() -> server.reserve(exactly("2"), new Outcome()))
          .hasMessage("no GPU 2 here: this server has 2");
      assertThatThrownBy(
              () -> server.reserve(asking(new GpuWish(2, List.of(), 0, "H100"), FOR_EVER), uuid))
          .hasMessage("2 GPUs of model 'H100' asked, this server has 1 such of 2");
      other.describe(Box.gpus(2));

      server.release(model.get().id());
      uuid.get();
    }
  }

  @Test
  void whoWaitsForASickGpuKeepsNothingElseFromAnybody() throws Exception {
    box.describe(Box.gpus(2).replace("gpu GPU-1", "gpu GPU-1\n  status 15"));

    Outcome waiting = Outcome.of(daemon, asking(2)).awaitQueued();

    await().until(() -> Fasteners.isFree(box.systemLock()) && Fasteners.isFree(box.lock(0)));
    assertThat(daemon.overview().gathered()).isEmpty();
    // Those of Berth stay behind it.
    assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
        .hasMessageStartingWith("1 GPU asked, but others are waiting already; GPU 1 is lost");
    box.describe(Box.gpus(2));
    waiting.get();
  }

  @Test
  void whoLeavesWhileItWaitsForASickGpuMakesRoomForTheNext() throws Exception {
    box.describe(Box.gpus(2).replace("gpu GPU-1", "gpu GPU-1\n  status 15"));
    Outcome waiting = Outcome.of(daemon, asking(2)).awaitQueued();
    Outcome next = Outcome.of(daemon, asking(1)).awaitQueued();

    waiting.leave();

    next.get();
  }

  @Test
  void aLockFolderThatCannotBeReadEndsNoWait() throws Exception {
    Outcome waiting;
    try (Fasteners python = Fasteners.hold(box.lock(0), box.lock(1))) {
      assertThat(python.pid()).isPositive();
      waiting = Outcome.of(daemon, asking(2)).awaitQueued();
      Files.move(box.locks(), folder.resolve("elsewhere"));
      Files.createFile(box.locks());
    }
    await().until(() -> lastReason(waiting).contains("Not a directory"));
    Files.delete(box.locks());
    Files.move(folder.resolve("elsewhere"), box.locks());

    waiting.get();
  }

  @Test
  void aLineThatIsNoFileEndsNoWait() throws Exception {
    Path queue = box.locks().resolve("tmp_lock_berth_queue");
    assertThat(new ProcessBuilder("mkfifo", queue.toString()).start().waitFor()).isZero();

    Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();
    assertThat(lastReason(waiting)).contains("Illegal seek");
    Files.delete(queue);

    waiting.get();
  }

  @Test
  @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aLockOnAllPlacesOfTheLineStopsOnlyThoseWhoWait() throws Exception {
    Reservation held = Outcome.of(daemon, asking(1)).get();
    Path queue = box.locks().resolve("tmp_lock_berth_queue");
    Process python =
        new ProcessBuilder(
                "/usr/bin/python3",
                "-c",
                "import fcntl, sys; file = open(sys.argv[1], 'r+b'); "
                    + "fcntl.lockf(file, fcntl.LOCK_EX, 0, 64); "
                    + "print('held', flush=True); sys.stdin.read()",
                queue.toString())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try {
      assertThat(python.inputReader().readLine()).isEqualTo("held");
      String trouble = "another process keeps " + queue + " locked: process " + python.pid();

      Outcome waiting = Outcome.of(daemon, asking(1)).awaitQueued();
      assertThat(lastReason(waiting)).isEqualTo(trouble);
      assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
          .hasMessage("1 GPU asked, but others are waiting already; " + trouble);
      assertThat(daemon.renew(held.id(), Optional.empty()).id()).isEqualTo(held.id());
      assertThat(daemon.overview().waiting()).hasSize(1);
      daemon.release(held.id());
      assertThat(waiting.isGranted()).isFalse();
      python.destroyForcibly();

      waiting.get();
    } finally {
      python.destroyForcibly();
    }
  }

  @Test
  void aLockFileThatCannotBeUsedKeepsTheLineWaiting() throws Exception {
    Path victim = Files.writeString(folder.resolve("victim"), "precious");
    Files.delete(box.lock(0));
    Files.createSymbolicLink(box.lock(0), victim);

    Outcome first = Outcome.of(daemon, asking(2)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(2)).awaitQueued();
    assertThat(lastReason(first)).startsWith("cannot open the lock file " + box.lock(0));
    Files.delete(box.lock(0));

    daemon.release(first.get().id());
    second.get();
  }

  @Test
  void aLockFolderThatVanishesAndComesBackEndsNoWait() throws Exception {
    Files.move(box.locks(), folder.resolve("elsewhere"));
    Outcome first = Outcome.of(daemon, asking(1)).awaitQueued();
    Outcome second = Outcome.of(daemon, asking(1)).awaitQueued();
    assertThat(lastReason(first)).endsWith("the folder " + box.locks() + " does not exist");

    Files.move(folder.resolve("elsewhere"), box.locks());

    first.get();
    second.get();
  }

  @Test
  void whoWaitsForGpusWaitsForPortsToo() throws Exception {
    Reservations few = box.daemon("few", "20100-20100");
    Reservation taken = Outcome.of(few, withPort(1, "ada")).get();
    Outcome waiting = Outcome.of(few, withPort(1, "ada")).awaitQueued();
    assertThat(lastReason(waiting)).isEqualTo("1 ports asked, 0 free in 20100-20100");

    few.release(taken.id());

    assertThat(waiting.get().ports()).containsExactly(20100);
  }

  @Test
  void aFullDiskKeepsTheLineWaitingAndLosesNothingThatWasPromised() throws Exception {
    Path state = Files.createDirectories(folder.resolve("states/full"));
    try (SmallDisk disk = new SmallDisk(state)) {
      Reservations server = box.daemon("full", "20000-20999");
      Lifetime minute = new Lifetime.Lasting(Duration.ofMinutes(1));
      Lifetime hour = new Lifetime.Lasting(Duration.ofHours(1));
      Reservation granted =
          Outcome.of(server, Box.request(GpuWish.of(1), Optional.empty(), minute, "")).get();

      disk.fill();
      Outcome first =
          Outcome.of(server, Box.request(GpuWish.of(1), Optional.empty(), hour, "")).awaitQueued();
      Outcome second = Outcome.of(server, asking(1)).awaitQueued();
      assertThat(lastReason(first)).contains("No space left on device");
      // Prolonged means prolonged, also for the next daemon.
      server.renew(granted.id(), Optional.of(Duration.ofHours(2)));
      server.close();
      assertThatThrownBy(first::get).hasMessage("this server is stopping");
      Reservations next = box.daemon("full", "20000-20999");
      assertThat(left(next, granted.id())).isBetween(Duration.ofMinutes(118), Duration.ofHours(2));

      Outcome third =
          Outcome.of(next, Box.request(GpuWish.of(1), Optional.empty(), hour, "")).awaitQueued();
      next.release(granted.id());
      assertThat(next.overview().reservations()).isEmpty();
      Outcome fourth =
          Outcome.of(next, Box.request(GpuWish.of(2), Optional.empty(), minute, "")).awaitQueued();
      disk.empty();

      Reservation late = third.get();
      assertThat(fourth.isGranted()).isFalse();
      next.release(late.id());
      next.release(fourth.get().id());
      next.close();
      assertThat(second.isGranted()).isTrue();
    }
  }

  @Test
  void aListenerThatThrowsEndsTheServiceOfNobodyElse() {
    Reservation holder = Outcome.of(daemon, asking(2)).get();
    ReservationListener broken =
        new ReservationListener() {
          @Override
          public void queued(int ahead, String because) {
            throw new StackOverflowError();
          }

          @Override
          public void granted(Reservation reservation) {
            throw new IllegalStateException("broken");
          }

          @Override
          public void failed(BerthException why) {
            throw new AssertionError("broken");
          }

          @Override
          public void ended() {
            throw new NoClassDefFoundError("broken");
          }
        };
    daemon.reserve(asking(1), broken);
    Outcome other = Outcome.of(daemon, asking(2)).awaitQueued();

    daemon.release(holder.id());
    await().until(() -> daemon.overview().reservations().size() == 1);
    daemon.release(daemon.overview().reservations().get(0).id());

    other.get();
  }

  @Test
  void whoeverKeepsTheLineLockedStopsOnlyThoseWhoWait() throws Exception {
    Reservation held = Outcome.of(daemon, asking(1)).get();
    try (LockFile queue = LockFile.open(box.locks().resolve("tmp_lock_berth_queue"))) {
      assertThat(queue.tryLock(LibC.F_WRLCK, 0, 1)).isTrue();
      List<Outcome> waiting = new ArrayList<>();
      for (int i = 0; i < 5; i++) {
        waiting.add(Outcome.of(daemon, asking(2)));
      }
      assertThat(daemon.renew(held.id(), Optional.empty()).id()).isEqualTo(held.id());
      assertThat(daemon.overview().waiting()).hasSize(5);
      assertThatThrownBy(() -> Outcome.of(daemon, askingNow(1)).get())
          .hasMessageStartingWith("1 GPU asked, but others are waiting already");
      waiting.get(1).leave();
      daemon.release(held.id());
      await().until(() -> lastReason(waiting.get(4)).endsWith(" is locked by another process"));
      queue.unlock();

      for (int i : List.of(0, 2, 3, 4)) {
        daemon.release(waiting.get(i).get().id());
      }
      assertThat(waiting.get(1).isGranted()).isFalse();
    }
  }

  @Test
  void stoppingDoesNotWaitForWhoeverKeepsTheLineLocked() throws Exception {
    Outcome.of(daemon, asking(1)).get();
    try (LockFile queue = LockFile.open(box.locks().resolve("tmp_lock_berth_queue"))) {
      queue.tryLock(LibC.F_WRLCK, 0, 1);
      Outcome waiting = Outcome.of(daemon, asking(1));

      daemon.close();

      assertThatThrownBy(waiting::get).hasMessage("this server is stopping");
    }
  }

  @Test
  void aLongLineIsServedInTheOrderOfTheCalls() throws Exception {
    Reservation holder = Outcome.of(daemon, asking(2)).get();
    List<Outcome> line = new ArrayList<>();
    List<String> order = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      String name = "owner-" + i;
      line.add(Outcome.of(daemon, withPort(0, name)));
      order.add(name);
    }
    assertThat(daemon.overview().waiting())
        .extracting(waiting -> waiting.request().owner().user())
        .isEqualTo(order);
    assertThat(line.get(199).positions()).isEqualTo(List.of(199));
    assertThat(openQueueFiles()).isEqualTo(1);

    daemon.release(holder.id());

    for (int i = 0; i < 200; i++) {
      Reservation next = line.get(i).get();
      assertThat(next.owner().user()).isEqualTo("owner-" + i);
      daemon.release(next.id());
    }
  }

  @Test
  void noMoreWaitThanAreAllowedInAllAndOfOneOwner() {
    Reservations small =
        box.daemon(
            new Reservations.Settings(
                "small", box.locks(), folder.resolve("states/small"), "20000-20999", false, 3, 2));
    Outcome.of(small, asking(2)).get();
    Outcome.of(small, withPort(0, "ada")).awaitQueued();
    Outcome second = Outcome.of(small, withPort(0, "ada")).awaitQueued();

    assertThatThrownBy(() -> small.reserve(withPort(0, "ada"), new Outcome()))
        .hasMessage("2 requests of ada@laptop are waiting on small, the maximum per owner");
    Outcome.of(small, withPort(0, "bob")).awaitQueued();
    assertThatThrownBy(() -> small.reserve(withPort(0, "eve"), new Outcome()))
        .hasMessage("3 requests are waiting on small, the maximum; try again later");
    // What was accepted elsewhere is not refused here.
    Outcome.of(small, Box.request(GpuWish.of(1), Optional.empty(), new Lifetime.OfRun("run-a"), ""))
        .awaitQueued();
    second.leave();
    Outcome.of(small, withPort(0, "eve")).awaitQueued();
  }

  private static ReservationRequest exactly(String id) {
    return asking(new GpuWish(0, List.of(id), 0, ""), FOR_EVER);
  }

  private static long openQueueFiles() throws IOException {
    try (var descriptors = Files.list(Path.of("/proc/self/fd"))) {
      return descriptors
          .filter(Files::isSymbolicLink)
          .filter(
              fd -> {
                try {
                  return Files.readSymbolicLink(fd).endsWith("tmp_lock_berth_queue");
                } catch (IOException e) {
                  return false;
                }
              })
          .count();
    }
  }

  private static Duration left(Reservations daemon, String id) {
    Reservation reservation =
        daemon.overview().reservations().stream()
            .filter(held -> held.id().equals(id))
            .findFirst()
            .orElseThrow();
    return Duration.ofNanos(reservation.expires().orElseThrow().nanos() - System.nanoTime());
  }

  private static String lastReason(Outcome outcome) {
    List<String> reasons = outcome.reasons();
    return reasons.isEmpty() ? "" : reasons.get(reasons.size() - 1);
  }

  private static ReservationRequest withPort(int ports, String owner) {
    return new ReservationRequest(
        Optional.of(GpuWish.of(ports == 0 ? 2 : 1)),
        ports,
        Optional.empty(),
        new Lifetime.Renewals(Duration.ofMinutes(10)),
        new Owner(owner, "laptop"),
        "test",
        "");
  }
}
