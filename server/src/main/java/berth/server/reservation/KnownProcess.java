package berth.server.reservation;

import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * One process, and never a later one of the same id.
 *
 * @param started its start in the kernel's ticks since the boot
 */
record KnownProcess(int pid, long started) {
  /** The process that has this id now. */
  static Optional<KnownProcess> of(int pid) {
    OptionalLong started = KernelFiles.startOf(pid);
    return started.isPresent()
        ? Optional.of(new KnownProcess(pid, started.getAsLong()))
        : Optional.empty();
  }

  boolean alive() {
    return KernelFiles.startOf(pid).equals(OptionalLong.of(started));
  }

  /** Completes when the process has ended, after {@code first}. */
  CompletableFuture<Void> ended(Runnable first) {
    CompletableFuture<Void> ended = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              awaitEnd();
              first.run();
              ended.complete(null);
            },
            "end-of-" + pid);
    thread.setDaemon(true);
    thread.start();
    return ended;
  }

  // Not ProcessHandle.onExit, if the kernel can do better: a process that is not our child is
  // looked for only now and then, and is not missed until its parent has reaped it.
  private void awaitEnd() {
    OptionalInt process = open();
    if (process.isEmpty()) {
      ProcessHandle.of(pid)
          .filter(running -> alive())
          .ifPresent(running -> running.onExit().join());
      return;
    }
    try {
      Memory pollFd = new Memory(8);
      pollFd.setInt(0, process.getAsInt());
      pollFd.setInt(4, LibC.POLLIN);
      while (alive()) {
        poll(pollFd);
      }
    } finally {
      LibC.INSTANCE.close(process.getAsInt());
    }
  }

  private static void poll(Memory pollFd) {
    try {
      LibC.INSTANCE.poll(pollFd, new NativeLong(1), -1);
    } catch (LastErrorException e) {
      if (e.getErrorCode() != LibC.EINTR) {
        throw e;
      }
    }
  }

  /** A descriptor of this very process; empty if it has ended, or the kernel is too old. */
  OptionalInt open() {
    try {
      int process = syscall(LibC.SYS_pidfd_open, pid, 0);
      if (alive()) {
        return OptionalInt.of(process);
      }
      LibC.INSTANCE.close(process);
    } catch (LastErrorException e) {
      // As described.
    }
    return OptionalInt.empty();
  }

  static int syscall(int number, int a, int b) {
    return LibC.INSTANCE
        .syscall(new NativeLong(number), new NativeLong(a), new NativeLong(b), new NativeLong(0))
        .intValue();
  }
}
