package berth.server.run.mount;

import com.sun.jna.LastErrorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * Where a Docker engine sees mounts. systemd's hardening gives berthd a view of its own, in which
 * mounts are not seen by the engine; so they are made in the engine's.
 *
 * @param pids processes of which the first that can be looked at has the engine's view
 */
record MountNamespace(List<Integer> pids) {
  private static final Path OWN = Path.of("/proc/self/ns/mnt");

  /**
   * Does {@code work} in a thread that sees what the engine sees. The thread ends with the work, so
   * nothing else is done there.
   */
  <T> T call(Callable<T> work) throws InterruptedException, IOException {
    Path namespace = find();
    CompletableFuture<T> done = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                enter(namespace);
                done.complete(work.call());
              } catch (Throwable e) {
                done.completeExceptionally(e);
              }
            },
            "mounts");
    thread.setDaemon(true);
    thread.start();
    try {
      return done.get();
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
