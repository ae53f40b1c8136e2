package berth.server.run.mount;

import berth.rpc.DaemonThreads;
import com.sun.jna.LastErrorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Where a Docker engine sees mounts. systemd's hardening gives berthd a view of its own, in which
 * mounts are not seen by the engine; so they are made in the engine's.
 *
 * @param pids processes of which the first that can be looked at has the engine's view
 */
record MountNamespace(List<Integer> pids) {
  private static final Path OWN = Path.of("/proc/self/ns/mnt");

  /** What is done in another view. */
  interface Work<T> {
    /**
     * @param gate to be passed before anything is changed
     */
    T call(Gate gate) throws Exception;
  }

  /** Either the work goes through, or no run waits for it any more and it changes nothing. */
  static final class Gate {
    private enum State {
      OPEN,
      PASSED,
      GIVEN_UP
    }

    private final AtomicReference<State> state = new AtomicReference<>(State.OPEN);

    void pass() throws IOException {
      if (!state.compareAndSet(State.OPEN, State.PASSED)) {
        throw new IOException("no run waits for it any more");
      }
    }

    private boolean giveUp() {
      return state.compareAndSet(State.OPEN, State.GIVEN_UP);
    }
  }

  /**
   * Does {@code work} in a thread that sees what the engine sees. The thread ends with the work, so
   * nothing else is done there.
   *
   * @throws TimeoutException if it takes too long; then the thread stays behind
   */
  <T> T call(Duration atMost, Work<T> work)
      throws InterruptedException, IOException, TimeoutException {
    Path namespace = find();
    CompletableFuture<T> done = new CompletableFuture<>();
    Gate gate = new Gate();
    Thread thread =
        DaemonThreads.start(
            () -> {
              try {
                enter(namespace);
                done.complete(work.call(gate));
              } catch (Throwable e) {
                done.completeExceptionally(e);
              }
            },
            "mounts");
    try {
      return get(done, atMost, gate);
    } catch (InterruptedException e) {
      gate.giveUp();
      throw e;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof IOException io) {
        throw io;
      }
      if (e.getCause() instanceof RuntimeException unchecked) {
        throw unchecked;
      }
      throw new IllegalStateException(e.getCause());
    }
  }

  private static <T> T get(CompletableFuture<T> done, Duration atMost, Gate gate)
      throws InterruptedException, ExecutionException, TimeoutException {
    try {
      return done.get(atMost.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      if (gate.giveUp()) {
        throw e;
      }
      // It has begun to change something just now, which takes the kernel no time.
      return done.get(atMost.toMillis(), TimeUnit.MILLISECONDS);
    }
  }

  /** Whether this process has the engine's view already. */
  boolean isOwn() {
    return find().equals(OWN);
  }

  private Path find() {
    for (int pid : pids) {
      Path namespace = Path.of("/proc/" + pid + "/ns/mnt");
      try {
        return id(namespace).equals(id(OWN)) ? OWN : namespace;
      } catch (IOException e) {
        // It has ended, or must not be looked at.
      }
    }
    return OWN;
  }

  private static Path id(Path namespace) throws IOException {
    return Files.readSymbolicLink(namespace);
  }

  private static void enter(Path namespace) throws LastErrorException {
    if (namespace.equals(OWN)) {
      return;
    }
    MountCalls calls = MountCalls.INSTANCE;
    int fd = calls.open(namespace.toString(), MountCalls.O_RDONLY | MountCalls.O_CLOEXEC);
    try {
      // A thread can leave the view of the others when it has a working folder of its own.
      calls.unshare(MountCalls.CLONE_FS);
      calls.setns(fd, MountCalls.CLONE_NEWNS);
    } finally {
      calls.close(fd);
    }
  }
}
