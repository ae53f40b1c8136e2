package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.IntByReference;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A tiny process that inherits the descriptors of locks and lives exactly as long as they should be
 * held, whatever happens to this process: the locks are the kernel's, and go when the last who has
 * the descriptor goes.
 *
 * @param started its start in the kernel's ticks since the boot, which tells it from a later
 *     process of the same id
 */
record Keeper(int pid, long started) {
  private static final Logger log = LoggerFactory.getLogger(Keeper.class);

  // How late the end of a process is noticed, in seconds.
  private static final String LOOK_EVERY = "0.02";

  /** Keeps the locks until process {@code pid} has ended. */
  static Keeper untilEndOf(int pid, List<Integer> descriptors) {
    return spawn(descriptors, program("tail"), "-s", LOOK_EVERY, "--pid=" + pid, "-f", "/dev/null");
  }

  /** Keeps the locks for {@code duration}. */
  static Keeper lasting(Duration duration, List<Integer> descriptors) {
    double seconds = duration.toNanos() / 1e9;
    return spawn(descriptors, program("sleep"), String.format(Locale.ROOT, "%.3f", seconds));
  }

  /** Whether this very process still runs. */
  boolean alive() {
    return startOf(pid).equals(OptionalLong.of(started));
  }

  /** Completes when the process has ended. */
  CompletableFuture<Void> ended() {
    return handle()
        .map(process -> process.onExit().thenAccept(gone -> reap()))
        .orElse(CompletableFuture.completedFuture(null));
  }

  /**
   * Descriptors of ours for the same open files, and so for the same locks. Empty if the kernel
   * does not allow that to this user, or the keeper has ended.
   */
  Optional<List<Integer>> share(List<Integer> descriptors) {
    if (!alive()) {
      return Optional.empty();
    }
    List<Integer> shared = new ArrayList<>();
    int process = -1;
    try {
      process = syscall(LibC.SYS_pidfd_open, pid, 0);
      for (int descriptor : descriptors) {
        shared.add(syscall(LibC.SYS_pidfd_getfd, process, descriptor));
      }
      return Optional.of(shared);
    } catch (LastErrorException e) {
      shared.forEach(LibC.INSTANCE::close);
      return Optional.empty();
    } finally {
      if (process >= 0) {
        LibC.INSTANCE.close(process);
      }
    }
  }

  private static int syscall(int number, int a, int b) {
    return LibC.INSTANCE
        .syscall(new NativeLong(number), new NativeLong(a), new NativeLong(b), new NativeLong(0))
        .intValue();
  }

  /** Ends the process, and so its part in the locks. */
  void kill() {
    Optional<ProcessHandle> process = handle();
    if (process.isEmpty()) {
      return;
    }
    try {
      LibC.INSTANCE.kill(pid, LibC.SIGKILL);
      if (!reap()) {
        process.get().onExit().get(1, TimeUnit.SECONDS);
      }
    } catch (LastErrorException e) {
      // It was faster.
    } catch (ExecutionException | TimeoutException e) {
      log.warn("the keeper {} does not end", pid);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  // False if it is not our child: reaped already, or of an earlier berthd.
  private boolean reap() {
    try {
      LibC.INSTANCE.waitpid(pid, null, 0);
      return true;
    } catch (LastErrorException e) {
      return false;
    }
  }

  private Optional<ProcessHandle> handle() {
    return alive() ? ProcessHandle.of(pid) : Optional.empty();
  }

  /**
   * Field 22 of /proc/PID/stat; empty if there is no such process, or only what its parent has not
   * reaped of it.
   */
  private static OptionalLong startOf(int pid) {
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      // The second field is a name in brackets, in which anything may stand.
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      return fields[0].equals("Z")
          ? OptionalLong.empty()
          : OptionalLong.of(Long.parseLong(fields[19]));
    } catch (IOException e) {
      return OptionalLong.empty();
    }
  }

  private static Keeper spawn(List<Integer> descriptors, String... command) {
    // Larger than the structures of any libc.
    Memory actions = new Memory(512);
    Memory attributes = new Memory(1024);
    Memory signals = new Memory(128);
    IntByReference pid = new IntByReference();
    LibC c = LibC.INSTANCE;
    c.posix_spawn_file_actions_init(actions);
    c.posix_spawnattr_init(attributes);
    try {
      for (int fd = 0; fd <= 2; fd++) {
        c.posix_spawn_file_actions_addopen(actions, fd, "/dev/null", LibC.O_RDWR, 0);
      }
      for (int descriptor : descriptors) {
        // Onto itself: that clears the mark which closes all others.
        c.posix_spawn_file_actions_adddup2(actions, descriptor, descriptor);
      }
      // A session of its own, so that no terminal's Ctrl-C reaches it.
      c.posix_spawnattr_setflags(
          attributes,
          (short)
              (LibC.POSIX_SPAWN_SETSID | LibC.POSIX_SPAWN_SETSIGMASK | LibC.POSIX_SPAWN_SETSIGDEF));
      signals.clear();
      c.posix_spawnattr_setsigmask(attributes, signals);
      signals.setMemory(0, signals.size(), (byte) 0xff);
      c.posix_spawnattr_setsigdefault(attributes, signals);
      int error =
          c.posix_spawn(
              pid,
              command[0],
              actions,
              attributes,
              new StringArray(command),
              new StringArray(new String[0]));
      if (error != 0) {
        throw new BerthException(
            Reason.UNAVAILABLE, "cannot start " + command[0] + " to keep locks: error " + error);
      }
    } finally {
      c.posix_spawn_file_actions_destroy(actions);
      c.posix_spawnattr_destroy(attributes);
    }
    return new Keeper(pid.getValue(), startOf(pid.getValue()).orElse(0));
  }

  private static String program(String name) {
    for (String folder : List.of("/usr/bin/", "/bin/")) {
      if (Files.isExecutable(Path.of(folder + name))) {
        return folder + name;
      }
    }
    throw new BerthException(
        Reason.UNAVAILABLE, "this machine has no " + name + " to keep locks (package coreutils)");
  }
}
