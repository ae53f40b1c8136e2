package berth.server.cluster;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.server.cluster.ClusterFolder.Stamp;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterNote;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One cluster, as its folder says that it is. What its supervisor writes is not kept in memory: it
 * may be much, and is seldom asked for. Any thread may call.
 */
final class StoredCluster {
  private static final Logger log = LoggerFactory.getLogger(StoredCluster.class);
  private static final Duration USUAL_TIME_TO_LIVE = Duration.ofDays(7);
  private static final Duration LONGEST_TIME_TO_LIVE = Duration.ofDays(3650);
  private static final long LOOK_MILLIS = 200;

  private final String serverName;
  private final ClusterFolder folder;
  private final ClusterStatus submitted;
  private final String requestId;
  private final ScheduledExecutorService timer;
  private volatile SupervisorRecord supervisor;

  // The state of the file that was last read, and what it said of the end.
  private Optional<Stamp> read = Optional.empty();
  private Optional<Instant> forgottenAt = Optional.empty();
  private Optional<Stamp> warned = Optional.empty();

  private final List<Runnable> listeners = new ArrayList<>();
  private ScheduledFuture<?> looking;
  private Optional<Stamp> seen = Optional.empty();

  /**
   * @param submitted what was asked for
   * @param timer where to look for news while somebody listens
   */
  StoredCluster(
      String serverName,
      ClusterFolder folder,
      ClusterStatus submitted,
      String requestId,
      SupervisorRecord supervisor,
      ScheduledExecutorService timer) {
    this.serverName = serverName;
    this.folder = folder;
    this.submitted = submitted;
    this.requestId = requestId;
    this.supervisor = supervisor;
    this.timer = timer;
  }

  String id() {
    return folder.id();
  }

  String name() {
    return submitted.getName();
  }

  Owner owner() {
    return submitted.getOwner();
  }

  String requestId() {
    return requestId;
  }

  ClusterFolder folder() {
    return folder;
  }

  Instant submittedAt() {
    return Messages.instant(submitted.getSubmittedAt());
  }

  /** The cluster as it is now, with everything that is known of it. */
  ClusterStatus status() {
    ClusterStatus.Builder status =
        submitted.toBuilder()
            .mergeFrom(said())
            // Whose it is, and what it is called, is not the supervisor's to say.
            .setClusterId(id())
            .setName(name())
            .setOwner(submitted.getOwner())
            .setSubmittedAt(submitted.getSubmittedAt())
            .setServer(serverName)
            .setSupervisorRestarts(supervisor.restarts());
    if (status.getPhase() != ClusterPhase.CLUSTER_PHASE_ENDED && folder.full()) {
      // Its supervisor cannot say so.
      status.addNotes(
          ClusterNote.newBuilder()
              .setAt(Messages.timestamp(Instant.now()))
              .setText(
                  "there is no space left on the disk of "
                      + serverName
                      + "; what is shown here may be old"));
    }
    return status.build();
  }

  // What cannot be read is as good as nothing: its supervisor writes it anew.
  private ClusterStatus said() {
    try {
      return folder.status().orElseGet(ClusterStatus::getDefaultInstance);
    } catch (IOException e) {
      warn(e);
      return ClusterStatus.getDefaultInstance();
    }
  }

  // Once for each file: this is asked for often.
  private synchronized void warn(IOException e) {
    Optional<Stamp> stamp = folder.stampOfStatus();
    if (!stamp.equals(warned)) {
      warned = stamp;
      log.warn("the status of {} is ignored: {}", id(), SupervisorStatus.clean(e.getMessage()));
    }
  }

  synchronized boolean ended() {
    if (forgottenAt.isPresent()) {
      return true;
    }
    Optional<Stamp> stamp = folder.stampOfStatus();
    if (stamp.isPresent() && !stamp.equals(read)) {
      ClusterStatus status = said();
      read = stamp;
      if (status.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED) {
        Instant now = Instant.now();
        Instant end =
            status.hasEndedAt()
                ? Messages.instant(status.getEndedAt())
                : stamp.get().modified().toInstant();
        // Nobody's clock keeps it for longer.
        end = end.isBefore(now) ? end : now;
        forgottenAt = Optional.of(end.plus(timeToLive(status)));
      }
    }
    return forgottenAt.isPresent();
  }

  // Nobody means longer ones, and a time of the day could not be told for all of them.
  private static Duration timeToLive(ClusterStatus status) {
    if (!status.hasTimeToLive()) {
      return USUAL_TIME_TO_LIVE;
    }
    Duration said = Messages.duration(status.getTimeToLive());
    return said.compareTo(LONGEST_TIME_TO_LIVE) < 0 ? said : LONGEST_TIME_TO_LIVE;
  }

  /** Whether it has ended and nobody uses its folder any more. */
  boolean over() {
    return ended() && !supervisor.alive();
  }

  /** Whether its time to live after its end is over. */
  synchronized boolean forgotten(Instant now) {
    return forgottenAt.map(now::isAfter).orElse(false);
  }

  /**
   * Notes that it is to end.
   *
   * @throws BerthException CONFLICT if it has
   */
  synchronized void cancel(CancelClusterRequest request) {
    if (ended()) {
      throw new BerthException(Reason.CONFLICT, id() + " has ended already");
    }
    Optional<CancelClusterRequest> before = folder.cancel();
    if (before.isEmpty() || request.getForce() && !before.get().getForce()) {
      folder.write(request);
    }
  }

  SupervisorRecord supervisor() {
    return supervisor;
  }

  /** Notes another supervisor. */
  void supervisor(SupervisorRecord next) {
    folder.write(next);
    supervisor = next;
    tell();
  }

  /** Notes the end that no supervisor could note. */
  void end(ClusterStatus status) {
    folder.write(status);
    tell();
  }

  /** Runs {@code listener} whenever {@link #status} may have changed, until the result is run. */
  synchronized Runnable listen(Runnable listener) {
    if (listeners.isEmpty()) {
      seen = folder.stampOfStatus();
      looking =
          timer.scheduleWithFixedDelay(this::look, LOOK_MILLIS, LOOK_MILLIS, TimeUnit.MILLISECONDS);
    }
    listeners.add(listener);
    return () -> unlisten(listener);
  }

  private synchronized void unlisten(Runnable listener) {
    if (listeners.remove(listener) && listeners.isEmpty()) {
      looking.cancel(false);
    }
  }

  private void look() {
    try {
      synchronized (this) {
        Optional<Stamp> stamp = folder.stampOfStatus();
        if (stamp.equals(seen)) {
          return;
        }
        seen = stamp;
      }
      tell();
    } catch (RuntimeException e) {
      log.warn("cannot read the status of {}: {}", id(), e.getMessage());
    }
  }

  private void tell() {
    List<Runnable> all;
    synchronized (this) {
      all = List.copyOf(listeners);
    }
    all.forEach(Runnable::run);
  }
}
