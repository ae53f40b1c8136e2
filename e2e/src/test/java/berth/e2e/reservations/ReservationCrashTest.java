package berth.e2e.reservations;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Reservations of a real {@code berthd} through a real {@code berth}, while processes are killed.
 */
class ReservationCrashTest {
  @TempDir private Path folder;
  private final List<Process> processes = new ArrayList<>();
  private Path locks;
  private Daemon berthd;

  @BeforeEach
  void start() {
    locks = folder.resolve("locks");
    berthd = berthd();
  }

  @AfterEach
  void killAll() {
    berthd.close();
    processes.forEach(Process::destroyForcibly);
    keepers().forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
  }

  @Test
  void theLockOutlivesAKilledDaemonWithoutAGapForAsLongAsTheProcessLives() throws Exception {
    Process job = run("sleep", "1000");
    String id = reserve("--gpu", "1", "--process", "" + job.pid());
    Contender contender = new Contender(lock(1));

    berthd.kill();
    berthd = berthd();

    assertThat(berth("reservations").out()).contains(id, "end of process " + job.pid());
    assertThat(berth("reserve", "--gpu", "1", "--wait", "0s").err())
        .isEqualTo("berth: 1 GPU (1) asked, 0 idle\n");
    berthd.kill();
    assertThat(contender.hasTheLock()).isFalse();
    job.destroyForcibly();
    contender.awaitTheLock(Duration.ofSeconds(1));
  }

  @Test
  void aDaemonThatIsBackCanReleaseWhatItFound() throws Exception {
    String id = reserve("--gpus", "2", "--ports", "1", "--for", "1h");
    berthd.kill();
    berthd = berthd();

    assertThat(berth("renew", id, "--for", "2h").out())
        .isEqualTo(id + ": GPUs 0,1 port 20000 for 2h\n");
    assertThat(berth("release", id).exitCode()).isZero();
    assertThat(berth("reserve", "--gpus", "all", "--wait", "0s", "--for", "1m").out())
        .contains("GPUs 0,1,2,3 for 60s");
    await().until(() -> keepers().size() == 1);
  }

  @Test
  void aTimedReservationEndsInTimeAlsoWithoutItsDaemon() throws Exception {
    reserve("--gpu", "0", "--for", "3s");
    Contender contender = new Contender(lock(0));
    berthd.kill();

    assertThat(contender.hasTheLock()).isFalse();
    contender.awaitTheLock(Duration.ofSeconds(4));
  }

  @Test
  void aRemovedLockFileAndAKilledDaemonMakeNoSecondHolder() throws Exception {
    Process job = run("sleep", "1000");
    reserve("--gpu", "0", "--for", "1h");
    reserve("--gpu", "1", "--process", "" + job.pid());
    Process program =
        run(
            Installed.command("berth"),
            "run",
            "--server",
            berthd.address(),
            "--gpu",
            "2",
            "--",
            "sh",
            "-c",
            "echo up; exec sleep 1000");
    assertThat(program.inputReader().readLine()).isEqualTo("up");
    List<Path> files = List.of(lock(0), lock(1), lock(2));

    for (Path file : files) {
      Files.delete(file);
    }
    await().until(() -> files.stream().allMatch(this::isKept));
    berthd.kill();

    assertThat(lock("--gpus", "1", "--", "sh", "-c", "echo $NV_GPU").out()).isEqualTo("3\n");
    assertThat(lock("--gpus", "2", "--wait", "0s", "--", "true").err())
        .isEqualTo("berth: 2 GPUs asked, 1 idle\n");
    berthd = berthd();
    assertThat(berth("reservations").out()).contains("GPU", "end of process " + job.pid());
    assertThat(lock("--gpus", "2", "--wait", "0s", "--", "true").exitCode()).isEqualTo(125);
  }

  @Test
  void aDaemonThatIsKilledInTheMiddleOfAReleaseLeavesNothingHalf() throws Exception {
    for (int delay = 0; delay < 2; delay++) {
      String id = reserve("--gpu", "0", "--ports", "1", "--for", "1h");
      Process release =
          run(Installed.command("berth"), "release", id, "--server", berthd.address());
      // The time of a release, in steps; the rest of it is the start of the command.
      await().until(() -> berthd.log().contains(id + " has ended") || !release.isAlive());
      release.waitFor(delay, TimeUnit.MILLISECONDS);

      berthd.kill();
      berthd = berthd();

      // A keeper that was just killed may take a moment to end.
      await().until(() -> berth("reservations").out().contains(id) == isKept(lock(0)));
      if (isKept(lock(0))) {
        assertThat(berth("release", id).exitCode()).isZero();
      }
      assertThat(lock("--gpu", "0", "--wait", "0s", "--", "true").exitCode()).isZero();
      assertThat(Files.exists(folder.resolve("state").resolve(id + ".reservation"))).isFalse();
    }
  }

  @Test
  void whoWaitsForALostGpuIsToldAndGetsIt() throws Exception {
    berthd.close();
    Path gpus = Files.writeString(folder.resolve("gpus.txt"), "gpu GPU-0\n  status 15\n");
    berthd = Daemon.start(folder, "berthd", "--name", "gpu01", "--simulate-gpus", gpus.toString());
    Process reserve =
        new ProcessBuilder(
                Installed.command("berth"),
                "reserve",
                "--gpus",
                "1",
                "--for",
                "1m",
                "--server",
                berthd.address())
            .start();
    processes.add(reserve);
    assertThat(reserve.errorReader().readLine())
        .startsWith("berth: next in line, waiting for GPUs: GPU 0 is lost: ");
    assertThat(berth("reservations").out()).contains("(GPU 0 is lost: ");

    Files.writeString(gpus, "gpu GPU-0\n");

    assertThat(reserve.inputReader().readLine()).endsWith(": GPU 0 for 60s");
  }

  @Test
  void drainingOutlivesTheDaemon() throws Exception {
    assertThat(berth("server", "drain").out())
        .isEqualTo(berthd.address() + ": draining, 0 reservations held\n");
    berthd.kill();
    berthd = berthd();

    assertThat(berth("reserve", "--gpus", "1").err())
        .isEqualTo("berth: gpu01 is draining: it grants nothing until 'berth server undrain'\n");
    assertThat(berth("reservations").out()).isEqualTo("gpu01, draining: nothing is reserved\n");
    assertThat(berth("server", "undrain").exitCode()).isZero();
    reserve("--gpus", "1", "--for", "1s");
  }

  @Test
  void aReservationWithoutATimeLivesAsLongAsItsCommand() throws Exception {
    Process reserve =
        run(Installed.command("berth"), "reserve", "--gpus", "4", "--server", berthd.address());
    assertThat(reserve.inputReader().readLine()).endsWith(": GPUs 0,1,2,3");

    reserve.destroyForcibly();

    assertThat(berth("reserve", "--gpus", "4", "--wait", "10s", "--for", "1s").exitCode()).isZero();
  }

  @Test
  void lockRunsACommandOnFreeGpusAndPassesItsExitCode() {
    reserve("--gpu", "0", "--for", "1m");

    Result result =
        lock(
            "--gpus",
            "2",
            "--",
            "sh",
            "-c",
            "echo $NV_GPU/$CUDA_VISIBLE_DEVICES/$CUDA_DEVICE_ORDER; exit 7");

    assertThat(result.out()).isEqualTo("2,3/2,3/PCI_BUS_ID\n");
    assertThat(result.exitCode()).isEqualTo(7);
    // Of the lock nobody is left, of the reservation one.
    await().until(() -> keepers().size() == 1);
  }

  @Test
  void lockIsTheCommandSoSignalsReachIt() throws Exception {
    Process lock =
        runLock(
            "--gpu",
            "2",
            "--",
            "sh",
            "-c",
            "trap 'echo got TERM; exit 3' TERM; echo up; while :; do sleep 0.05; done");
    BufferedReader out = lock.inputReader();
    assertThat(out.readLine()).isEqualTo("up");
    assertThat(berth("reservations").out()).contains("berth lock (pid " + lock.pid() + ") of ");

    // Not Process.destroy, which would close the output too.
    lock.toHandle().destroy();

    assertThat(out.readLine()).isEqualTo("got TERM");
    assertThat(lock.waitFor()).isEqualTo(3);
    await().atMost(Duration.ofSeconds(1)).until(() -> new Contender(lock(2)).hasTheLockSoon());
  }

  @Test
  void aKilledLockFreesItsGpusAndNothingElseDoes() throws Exception {
    Process lock = runLock("--gpu", "2", "--", "sleep", "1000");
    await().until(() -> berth("reservations").out().contains("berth lock"));
    Contender contender = new Contender(lock(2));
    assertThat(contender.hasTheLock()).isFalse();

    lock.destroyForcibly();

    contender.awaitTheLock(Duration.ofSeconds(1));
  }

  @Test
  void lockWaitsNoLongerThanToldAndSaysWhatItCannotRun() {
    reserve("--gpus", "4", "--for", "1m");

    Result late = lock("--wait", "1s", "--", "true");
    assertThat(late.err()).endsWith("berth: 1 GPU asked, not free within 1.0 s\n");
    assertThat(late.exitCode()).isEqualTo(125);
    assertThat(lock("--wait", "0s", "--", "true").err()).isEqualTo("berth: 1 GPU asked, 0 idle\n");
    assertThat(lock("--", "no-such-command").exitCode()).isEqualTo(127);
    assertThat(lock("--", "/etc/passwd").exitCode()).isEqualTo(126);
  }

  @Test
  void aLockFileOfAnotherUserIsNamedWithItsOwner() {
    Path file = lock(0);
    Installed.run("chown", "nobody", file.toString());
    Installed.run("chmod", "0644", file.toString());

    // As root, but without root's right to open everything.
    Result result =
        Installed.run(
            "setpriv",
            "--bounding-set=-dac_override,-dac_read_search",
            Installed.command("berth"),
            "lock",
            "--gpu",
            "0",
            "--simulate-gpus",
            "4",
            "--lock-dir",
            locks.toString(),
            "--",
            "true");

    assertThat(result.err())
        .contains(
            "cannot open the lock file " + file + ": permission denied; it belongs to nobody");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @Test
  void aFullDiskIsAClearErrorAndNothingIsHeld() throws Exception {
    Path full = Files.createDirectory(folder.resolve("full"));
    // Room for a few files without content.
    assertThat(
            Installed.run("mount", "-t", "tmpfs", "-o", "nr_inodes=2", "none", full.toString())
                .exitCode())
        .isZero();
    try {
      Files.createFile(full.resolve("last"));
      Result result =
          Installed.berth(
              "lock", "--simulate-gpus", "4", "--lock-dir", full.toString(), "--", "true");

      assertThat(result.err())
          .isEqualTo(
              "berth: cannot make the lock file "
                  + full.resolve("tmp_lock_berth_queue")
                  + ": the disk is full\n");
    } finally {
      Installed.run("umount", full.toString());
    }
  }

  private Daemon berthd() {
    return Daemon.start(
        folder,
        "berthd",
        "--name",
        "gpu01",
        "--simulate-gpus",
        "4",
        "--runtime",
        "process",
        "--allow-root");
  }

  private Result berth(String... words) {
    List<String> all = new ArrayList<>(List.of(words));
    all.addAll(List.of("--server", berthd.address()));
    return Installed.berth(all.toArray(String[]::new));
  }

  /** Reserves, and returns the id. */
  private String reserve(String... words) {
    List<String> all = new ArrayList<>(List.of("reserve"));
    all.addAll(List.of(words));
    Result result = berth(all.toArray(String[]::new));
    assertThat(result.err()).isEmpty();
    return result.out().split(":")[0];
  }

  private List<String> lockWords(String... words) {
    List<String> all =
        new ArrayList<>(List.of("lock", "--simulate-gpus", "4", "--lock-dir", locks.toString()));
    all.addAll(List.of(words));
    return all;
  }

  private Result lock(String... words) {
    return Installed.berth(lockWords(words).toArray(String[]::new));
  }

  private Process runLock(String... words) throws Exception {
    List<String> command = lockWords(words);
    command.add(0, Installed.command("berth"));
    return run(command.toArray(String[]::new));
  }

  private Process run(String... command) throws Exception {
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    processes.add(process);
    return process;
  }

  private Path lock(int gpu) {
    return locks.resolve("tmp_lock_gpu" + gpu);
  }

  /** The processes that keep locks of this test for a daemon or a command. */
  private List<Long> keepers() {
    return ProcessHandle.allProcesses()
        .filter(process -> process.pid() != berthd.pid())
        .filter(process -> holdsALock(Path.of("/proc/" + process.pid() + "/fd")))
        .map(ProcessHandle::pid)
        .toList();
  }

  /** Whether a process other than the daemon has the file open that stands under this name now. */
  private boolean isKept(Path file) {
    return ProcessHandle.allProcesses()
        .filter(process -> process.pid() != berthd.pid())
        .filter(process -> process.pid() != ProcessHandle.current().pid())
        .anyMatch(process -> hasOpen(Path.of("/proc/" + process.pid() + "/fd"), file));
  }

  private boolean hasOpen(Path descriptors, Path file) {
    try (Stream<Path> open = Files.list(descriptors)) {
      for (Path descriptor : open.toList()) {
        // One that was locked anew had another name when it was opened.
        if (Files.readSymbolicLink(descriptor).startsWith(locks)
            && Files.isSameFile(descriptor, file)) {
          return true;
        }
      }
    } catch (IOException e) {
      // It has ended meanwhile, or the file is gone.
    }
    return false;
  }

  private boolean holdsALock(Path descriptors) {
    try (Stream<Path> files = Files.list(descriptors)) {
      for (Path file : files.toList()) {
        if (Files.isSymbolicLink(file) && Files.readSymbolicLink(file).startsWith(locks)) {
          return true;
        }
      }
    } catch (IOException e) {
      // It has ended meanwhile.
    }
    return false;
  }

  /** A process that uses fasteners and tries to get a lock all the time. */
  private final class Contender {
    private final Process process;
    private final BufferedReader out;

    Contender(Path file) throws Exception {
      Path script =
          Path.of(System.getProperty("berth.root"), "server/src/test/python/fasteners_locks.py");
      process = run("/usr/bin/python3", script.toString(), "spin", file.toString());
      out = process.inputReader();
      assertThat(out.readLine()).isEqualTo("trying");
    }

    boolean hasTheLock() throws Exception {
      return out.ready();
    }

    boolean hasTheLockSoon() throws Exception {
      return process.waitFor(500, TimeUnit.MILLISECONDS);
    }

    void awaitTheLock(Duration atMost) throws Exception {
      assertThat(process.waitFor(atMost.toMillis(), TimeUnit.MILLISECONDS)).isTrue();
      assertThat(out.readLine()).isEqualTo("free");
    }
  }
}
