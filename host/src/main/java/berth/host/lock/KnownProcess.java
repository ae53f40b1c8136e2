package berth.host.lock;

import berth.rpc.DaemonThreads;
import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * One process, and never a later one of the same id.
 *
 * @param started its start in the kernel's ticks since the boot
 */
public record KnownProcess(int pid, long started) {
  // No descriptor.
  private static final int NONE = -1;

  private static final Duration FOR_EVER = Duration.ofDays(36_500);
  private static final Duration LONG = Duration.ofDays(1);
  private static final Duration LOOK_EVERY = Duration.ofMillis(100);

  /** The process that has this id now. */
  public static Optional<KnownProcess> of(int pid) {
    OptionalLong started = KernelFiles.startOf(pid);
    return started.isPresent()
        ? Optional.of(new KnownProcess(pid, started.getAsLong()))
        : Optional.empty();
  }

  public boolean alive() {
    return KernelFiles.startOf(pid).equals(OptionalLong.of(started));
  }

  /** Completes when the process has ended, after {@code first}. */
  CompletableFuture<Void> ended(Runnable first) {
    CompletableFuture<Void> ended = new CompletableFuture<>();
    thread(
            pid,
            () -> {
              awaitEnd(NONE);
              first.run();
              ended.complete(null);
            })
        .start();
    return ended;
  }

  static Thread thread(int pid, Runnable work) {
    return DaemonThreads.unstarted(work, "end-of-" + pid);
  }

  /**
   * Waits until the process has ended.
   *
   * @param givenUp a descriptor; the wait is given up as soon as that can be read
   * @return false if given up before that
   */
  boolean awaitEnd(int givenUp) {
    return awaitEnd(givenUp, FOR_EVER);
  }

  /** Waits until the process has ended. False if that takes longer. */
  boolean awaitEnd(Duration atMost) {
    return awaitEnd(NONE, atMost);
  }

  // Not ProcessHandle.onExit, if the kernel can do better: a process that is not our child is
  // looked for only now and then, and is not missed until its parent has reaped it.
  private boolean awaitEnd(int givenUp, Duration atMost) {
    OptionalInt process = open();
    try {
      // Two of struct pollfd, of which the kernel ignores one without a descriptor.
      Memory pollFds = new Memory(16);
      pollFds.setInt(0, process.orElse(NONE));
      pollFds.setInt(8, givenUp);
      long start = System.nanoTime();
      while (alive()) {
        Duration left = atMost.minusNanos(System.nanoTime() - start);
        if (left.isNegative()) {
          return false;
        }
        // A kernel that knows no descriptors of processes has to be asked again and again.
        Duration step = process.isPresent() ? LONG : LOOK_EVERY;
        pollFds.setInt(4, LibC.POLLIN);
        pollFds.setInt(12, LibC.POLLIN);
        poll(pollFds, (int) (left.compareTo(step) < 0 ? left : step).toMillis() + 1);
        if (pollFds.getShort(14) != 0) {
          return false;
        }
      }
      return true;
    } finally {
      process.ifPresent(LibC.INSTANCE::close);
    }
  }

  private static void poll(Memory pollFds, int millis) {
    try {
      LibC.INSTANCE.poll(pollFds, new NativeLong(2), millis);
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
