package berth.client.cluster;

import berth.client.call.RegistryClient;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.SealedMessage;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * A cluster that was handed over to a server, as the process sees it that supervises it. All that
 * it needs and knows is in a folder, which it shares with {@code berthd}. Messages are in {@link
 * SealedMessage} form:
 *
 * <ul>
 *   <li>{@code input/submitted}: the cluster as it was handed over, a {@code ClusterStatus};
 *   <li>{@code input/package}: what it is, see {@code ClusterPackage};
 *   <li>{@code input/cancel}: a {@code CancelClusterRequest}, once somebody wants it to end;
 *   <li>{@code state/status}: its newest {@code ClusterStatus};
 *   <li>{@code state/unpacked}: the files of its tasks;
 *   <li>{@code state/tmp}: temporary files, if the process was started so;
 *   <li>{@code state/lock}: locked while somebody supervises it.
 * </ul>
 *
 * <p>It writes below {@code state} only, and need not be able to write anywhere else. A process
 * that goes on with the folder of one that was killed finds every run that was started, and starts
 * none twice.
 */
public final class SupervisedCluster {
  private static final Duration LOOK_AGAIN = Duration.ofMillis(200);
  private static final Duration LOCK_PATIENCE = Duration.ofSeconds(15);

  /** Brings a file, or the names in a folder, to disk. */
  interface Flush {
    void force(Path path) throws IOException;
  }

  private final Path input;
  private final Path state;
  private final Flush flush;

  public SupervisedCluster(Path folder) {
    this(folder, SupervisedCluster::force);
  }

  SupervisedCluster(Path folder, Flush flush) {
    this.input = folder.resolve("input");
    this.state = folder.resolve("state");
    this.flush = flush;
  }

  /**
   * Supervises it until it has ended.
   *
   * @param notes is told what happens, in words
   * @throws BerthException CONFLICT if another process does
   * @throws IOException if the folder cannot be used
   */
  public void carryOut(RegistryClient registry, Consumer<String> notes)
      throws IOException, InterruptedException {
    try (FileChannel file =
        FileChannel.open(
            state.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      lock(file);
      emptyTemporary();
      ClusterStatus known = known();
      if (known.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED) {
        return;
      }
      ClusterRequest request;
      try {
        request = ClusterPackage.read(input.resolve("package"), state.resolve("unpacked"));
      } catch (BerthException e) {
        // Nobody can make more of it, however often it is tried.
        end(known, e.getMessage());
        notes.accept(e.getMessage());
        return;
      }
      Ledger ledger = Ledger.supervised(this::save, known, Clock.systemUTC());
      // It is never closed: should this process fail, the next one goes on with it.
      await(Cluster.start(registry, request, ledger, event -> tell(event, notes)));
    }
  }

  // What one that was killed has left there is of no use.
  private void emptyTemporary() throws IOException {
    Path temporary = Files.createDirectories(state.resolve("tmp"));
    try (DirectoryStream<Path> left = Files.newDirectoryStream(temporary)) {
      for (Path file : left) {
        Files.delete(file);
      }
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
    Path status = state.resolve("status");
    if (!Files.exists(status, LinkOption.NOFOLLOW_LINKS)) {
      return submitted();
    }
    try {
      return SealedMessage.open(Files.readAllBytes(status), ClusterStatus.parser());
    } catch (InvalidProtocolBufferException e) {
      // What was started is not known any more, and nothing may be started twice.
      Path aside = state.resolve("damaged-" + System.currentTimeMillis() + "-status");
      Files.move(status, aside);
      return end(submitted(), status + " is damaged, and is now " + aside + ": " + e.getMessage());
    }
  }

  private ClusterStatus submitted() throws IOException {
    return SealedMessage.open(
        Files.readAllBytes(input.resolve("submitted")), ClusterStatus.parser());
  }

  private ClusterStatus end(ClusterStatus known, String why) throws IOException {
    ClusterStatus ended =
        known.toBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
            .clearWaitingFor()
            .setOutcome(ClusterOutcome.CLUSTER_OUTCOME_FAILED)
            .setWhy(why)
            .setExitCode(ExitCode.BERTH_FAILED)
            .setEndedAt(Messages.timestamp(Instant.now()))
            .build();
    save(ended);
    return ended;
  }

  private void save(ClusterStatus status) throws IOException {
    Path begun = Files.write(state.resolve("status.new"), SealedMessage.seal(status));
    flush.force(begun);
    Files.move(begun, state.resolve("status"), StandardCopyOption.ATOMIC_MOVE);
    // The name, too, must be on disk before anything is done that it tells of.
    flush.force(state);
  }

  private static void force(Path path) throws IOException {
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      channel.force(true);
    }
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

  /** The order to end it; null if there is none. */
  CancelClusterRequest cancelAsked() throws IOException {
    try {
      return SealedMessage.open(
          Files.readAllBytes(input.resolve("cancel")), CancelClusterRequest.parser());
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
      notes.accept(again.task() + " restarts in " + again.pause() + ": " + again.why());
    } else if (event instanceof ClusterEvent.Reforming again) {
      notes.accept("the cluster restarts: " + again.why());
    } else if (event instanceof ClusterEvent.Note note) {
      notes.accept(note.text());
    }
  }
}
