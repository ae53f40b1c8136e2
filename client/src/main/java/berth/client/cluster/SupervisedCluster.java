package berth.client.cluster;

import berth.client.RegistryClient;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * A cluster that was handed over to a server, as the process sees it that supervises it. All that
 * it needs and knows is in a folder, which it shares with {@code berthd}:
 *
 * <ul>
 *   <li>{@code submitted}: the cluster as it was handed over, a {@code ClusterStatus};
 *   <li>{@code package}: what it is, see {@code ClusterPackage};
 *   <li>{@code status}: its newest {@code ClusterStatus}, which only this process writes;
 *   <li>{@code cancel}: a {@code CancelClusterRequest}, once somebody wants it to end;
 *   <li>{@code lock}: locked while somebody supervises it.
 * </ul>
 *
 * <p>A process that goes on with the folder of one that was killed finds every run that was
 * started, and starts none twice.
 */
public final class SupervisedCluster {
  private static final Duration LOOK_AGAIN = Duration.ofMillis(200);
  private static final Duration LOCK_PATIENCE = Duration.ofSeconds(15);

  private final Path folder;

  public SupervisedCluster(Path folder) {
    this.folder = folder;
  }

  /**
   * Supervises it until it has ended.
   *
   * @param notes is told what happens, in words
   * @throws BerthException CONFLICT if another process does, INVALID if the package cannot be used
   * @throws IOException if the folder cannot be used
   */
  public void carryOut(RegistryClient registry, Consumer<String> notes)
      throws IOException, InterruptedException {
    try (FileChannel file =
        FileChannel.open(
            folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      lock(file);
      ClusterStatus known = known();
      if (known.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED) {
        return;
      }
      ClusterRequest request =
          ClusterPackage.read(folder.resolve("package"), folder.resolve("unpacked"));
      Ledger ledger = Ledger.supervised(this::save, known, Clock.systemUTC());
      // It is never closed: should this process fail, the next one goes on with it.
      await(Cluster.start(registry, request, ledger, event -> tell(event, notes)));
    }
  }

  // Until the file is closed.
  private static void lock(FileChannel file) throws IOException, InterruptedException {
    long begun = System.nanoTime();
    while (file.tryLock() == null) {
      // One that was just killed may still be going.
      if (System.nanoTime() - begun > LOCK_PATIENCE.toNanos()) {
        throw new BerthException(Reason.CONFLICT, "another process supervises this cluster");
      }
      TimeUnit.NANOSECONDS.sleep(LOOK_AGAIN.toNanos());
    }
  }

  private ClusterStatus known() throws IOException {
    Path status = folder.resolve("status");
    return ClusterStatus.parseFrom(
        Files.readAllBytes(Files.exists(status) ? status : folder.resolve("submitted")));
  }

  private void save(ClusterStatus status) throws IOException {
    Path begun = folder.resolve("status.new");
    try (FileChannel file =
        FileChannel.open(
            begun,
            StandardOpenOption.CREATE,
            StandardOpenOption.WRITE,
            StandardOpenOption.TRUNCATE_EXISTING)) {
      ByteBuffer bytes = ByteBuffer.wrap(status.toByteArray());
      while (bytes.hasRemaining()) {
        file.write(bytes);
      }
      file.force(true);
    }
    Files.move(
        begun,
        folder.resolve("status"),
        StandardCopyOption.ATOMIC_MOVE,
        StandardCopyOption.REPLACE_EXISTING);
  }

  private void await(Cluster cluster) throws IOException, InterruptedException {
    boolean stopped = false;
    boolean killed = false;
    while (true) {
      try {
        cluster.ended().get(LOOK_AGAIN.toNanos(), TimeUnit.NANOSECONDS);
        return;
      } catch (TimeoutException e) {
        CancelClusterRequest cancel = cancelAsked();
        if (cancel != null && cancel.getForce() && !killed) {
          killed = true;
          cluster.kill();
        } else if (cancel != null && !stopped) {
          stopped = true;
          cluster.stop();
        }
      } catch (ExecutionException e) {
        // One that could never be formed has noted that as its end.
        if (e.getCause() instanceof BerthException) {
          return;
        }
        throw new IllegalStateException(e.getCause());
      }
    }
  }

  private CancelClusterRequest cancelAsked() throws IOException {
    try {
      return CancelClusterRequest.parseFrom(Files.readAllBytes(folder.resolve("cancel")));
    } catch (NoSuchFileException e) {
      return null;
    }
  }

  private static void tell(ClusterEvent event, Consumer<String> notes) {
    if (event instanceof ClusterEvent.Waiting waiting) {
      notes.accept("waits: " + waiting.why());
    } else if (event instanceof ClusterEvent.Formed formed) {
      notes.accept("formed: " + formed.plan().byServer());
    } else if (event instanceof ClusterEvent.Started started) {
      notes.accept(started.task() + " runs on " + started.server() + " as " + started.runId());
    } else if (event instanceof ClusterEvent.Ended ended) {
      TaskResult result = ended.result();
      notes.accept(result.task() + " has ended: " + result.end().words() + " " + result.why());
    } else if (event instanceof ClusterEvent.Restarting again) {
      notes.accept(again.task() + " starts again in " + again.pause() + ": " + again.why());
    } else if (event instanceof ClusterEvent.Reforming again) {
      notes.accept("all starts again: " + again.why());
    } else if (event instanceof ClusterEvent.Note note) {
      notes.accept(note.text());
    }
  }
}
