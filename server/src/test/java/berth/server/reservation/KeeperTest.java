package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.Keeper;
import berth.host.lock.KernelFiles;
import berth.host.lock.LibC;
import berth.host.lock.LockFile;
import berth.host.lock.LockFolder;
import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
import berth.server.reservation.Box.Outcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The processes that hold locks in place of ours. */
class KeeperTest {
  @TempDir private Path folder;

  @Test
  void endsWithItsStarterUntilItIsToldToGoOn() throws Exception {
    Path path = folder.resolve("lock");
    Keeper.Gated gated = keeperOf(path);
    assertThat(Fasteners.isFree(path)).isFalse();

    // As the kernel does if this process is killed.
    LibC.INSTANCE.close(gated.gate());

    gated.keeper().ended().get(10, TimeUnit.SECONDS);
    assertThat(Fasteners.isFree(path)).isTrue();
  }

  @Test
  void keepsTheLockWhenToldToGoOn() {
    Path path = folder.resolve("lock");
    Keeper.Gated gated = keeperOf(path);

    gated.goOn();

    assertThat(Fasteners.isFree(path)).isFalse();
    gated.keeper().kill();
    assertThat(Fasteners.isFree(path)).isTrue();
  }

  @Test
  void leavesNoZombieWhenItEndedByItself() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    Keeper.Gated gated = Keeper.untilEndOf((int) job.pid(), List.of());
    gated.goOn();
    job.destroyForcibly().waitFor();
    await().until(() -> !gated.keeper().alive());
    Path process = Path.of("/proc", Integer.toString(gated.keeper().pid()));
    assertThat(process).exists();

    gated.keeper().kill();

    assertThat(process).doesNotExist();
  }

  @Test
  void seesTheEndOfAProcessThatItsParentDoesNotReap() throws Exception {
    Process parent =
        new ProcessBuilder("sh", "-c", "sleep 1000 & echo $!; exec sleep 1000").start();
    try {
      int pid = Integer.parseInt(parent.inputReader().readLine());
      Keeper stranger = new Keeper(pid, KernelFiles.startOf(pid).orElseThrow());
      var ended = stranger.ended();
      assertThat(ended).isNotDone();

      LibC.INSTANCE.kill(pid, LibC.SIGKILL);

      assertThat(ended).succeedsWithin(Duration.ofSeconds(10));
    } finally {
      parent.destroyForcibly();
    }
  }

  @Test
  void isReplacedIfSomebodyKillsItWhileItsProcessLives() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    try (Box box = new Box(folder, Box.gpus(1))) {
      Reservations daemon = box.daemon();
      Lifetime lifetime = new Lifetime.OfProcess((int) job.pid());
      Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), lifetime, "")).get();
      ProcessHandle killed = keeperFor(job).orElseThrow();

      killed.destroyForcibly();

      await().until(() -> keeperFor(job).filter(other -> !other.equals(killed)).isPresent());
      assertThat(daemon.overview().reservations()).hasSize(1);
      assertThat(Fasteners.isFree(box.lock(0))).isFalse();
      job.destroyForcibly();
      await().until(() -> daemon.overview().reservations().isEmpty());
      assertThat(Fasteners.isFree(box.lock(0))).isTrue();
    } finally {
      job.destroyForcibly();
    }
  }

  @Test
  void nothingIsLeftOfReservationsThatEndBeforeTheProcessTheyLiveBy() throws Exception {
    Process job = new ProcessBuilder("sleep", "1000").start();
    try (Box box = new Box(folder, Box.gpus(1))) {
      Reservations daemon = box.daemon();
      Lifetime lifetime = new Lifetime.OfProcess((int) job.pid());
      for (int i = 0; i < 50; i++) {
        Outcome outcome =
            Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), lifetime, ""));
        daemon.release(outcome.get().id());
      }

      await().until(() -> threadsThatAwait(job) == 0 && descriptorsOfProcesses() == 0);
    } finally {
      job.destroyForcibly();
    }
  }

  private static long threadsThatAwait(Process job) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("end-of-" + job.pid()))
        .count();
  }

  private static long descriptorsOfProcesses() throws IOException {
    try (var descriptors = Files.list(Path.of("/proc/self/fd"))) {
      return descriptors
          .filter(
              descriptor -> {
                try {
                  return Files.readSymbolicLink(descriptor).toString().contains("[pidfd]");
                } catch (IOException e) {
                  return false;
                }
              })
          .count();
    }
  }

  @Test
  void recordsThatWereNotFinishedAreRemoved() throws Exception {
    Path unfinished = Files.createFile(folder.resolve("r-1.new"));
    try (DurableFiles files = new DurableFiles(new Vitals());
        ReservationStore store = new ReservationStore(folder, files)) {
      assertThat(store.load()).isEmpty();
    }
    assertThat(unfinished).doesNotExist();
  }

  private static Keeper.Gated keeperOf(Path path) {
    try (LockFile file = LockFolder.tryLock(path).orElseThrow()) {
      return Keeper.lasting(Duration.ofHours(1), List.of(file.fd()));
    }
  }

  private static Optional<ProcessHandle> keeperFor(Process job) {
    return ProcessHandle.current()
        .children()
        .filter(child -> child.info().commandLine().orElse("").contains("--pid=" + job.pid()))
        .findFirst();
  }
}
