package berth.server.cluster;

import berth.rpc.Address;
import berth.rpc.Backoff;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.server.cluster.Clusters.Timing;
import berth.v1.ClusterNote;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sees to it that a cluster has a supervisor until it has ended. A supervisor is a process that
 * goes on without this one; that of an earlier daemon is as good as one of this. To be called by
 * one thread at a time.
 */
final class Supervision {
  private static final Logger log = LoggerFactory.getLogger(Supervision.class);
  private static final int MOST_FAILURES = 20;

  private final StoredCluster cluster;
  private final SupervisorSandbox sandbox;
  private final List<String> command;
  private final Supplier<List<Address>> registries;
  private final Timing timing;
  private final LongSupplier nanos;

  // Only one that was seen alive can be seen to end.
  private boolean alive;
  private long aliveSince;
  private long notBefore;
  private final Backoff pauses;
  private int failures;
  // Why the last one failed; empty if only its log can say that.
  private String problem = "";
  private boolean over;

  /**
   * @param sandbox in which supervisors run
   * @param command the first words of the supervisor's
   * @param registries those that are known now; may take a while
   */
  Supervision(
      StoredCluster cluster,
      SupervisorSandbox sandbox,
      List<String> command,
      Supplier<List<Address>> registries,
      Timing timing,
      LongSupplier nanos) {
    this.cluster = cluster;
    this.sandbox = sandbox;
    this.command = command;
    this.registries = registries;
    this.timing = timing;
    this.pauses = new Backoff(timing.firstPause(), timing.longestPause());
    this.nanos = nanos;
    this.notBefore = nanos.getAsLong();
  }

  /** Does what is to be done now; to be called now and then. */
  void look() {
    if (over) {
      return;
    }
    if (cluster.supervisor().alive()) {
      if (!alive) {
        seenAlive();
        log.info("{} ({}) continues with its supervisor", cluster.id(), cluster.name());
      }
      return;
    }
    // Asked when nobody writes any more.
    if (cluster.ended()) {
      over = true;
      log.info("{} ({}) has ended", cluster.id(), cluster.name());
      return;
    }
    if (alive) {
      alive = false;
      problem = "";
      failed(Duration.ofNanos(nanos.getAsLong() - aliveSince));
    }
    if (nanos.getAsLong() - notBefore < 0) {
      return;
    }
    try {
      if (failures < MOST_FAILURES) {
        start();
      } else {
        giveUp();
      }
    } catch (BerthException e) {
      // A full disk says nothing against the supervisor.
      pause(Duration.ZERO);
      log.warn("{} has no supervisor: {}", cluster.id(), e.getMessage());
    }
  }

  private void seenAlive() {
    alive = true;
    aliveSince = nanos.getAsLong();
  }

  private void start() {
    SupervisorRecord last = cluster.supervisor();
    List<Address> found = registries.get();
    // One that was known before may be away for a moment only, and not all that is to be done needs
    // one.
    List<Address> told = found.isEmpty() ? last.registries() : found;
    List<String> words = new ArrayList<>(command);
    words.addAll(
        List.of(cluster.folder().path().toString(), "--registry", SupervisorRecord.words(told)));
    try {
      cluster.folder().prepare();
      SupervisorProcess.start(
          sandbox.around(cluster.folder(), words),
          SupervisorSandbox.environment(),
          cluster.folder().log(),
          process -> cluster.supervisor(last.started(process, told)));
      seenAlive();
      log.info(
          "{} ({}) has the supervisor {}",
          cluster.id(),
          cluster.name(),
          cluster.supervisor().process().orElseThrow().pid());
    } catch (IOException e) {
      problem = e.getMessage();
      failed(Duration.ZERO);
    }
  }

  private void failed(Duration lived) {
    failures = lived.compareTo(timing.quick()) < 0 ? failures + 1 : 0;
    if (failures >= MOST_FAILURES) {
      notBefore = nanos.getAsLong();
      return;
    }
    Duration pause = pause(lived);
    log.warn(
        "the supervisor of {} ended before its cluster; restarting it in {} s: {}",
        cluster.id(),
        pause.toMillis() / 1000.0,
        reason());
  }

  private String reason() {
    return problem.isEmpty()
        ? cluster
            .folder()
            .lastLineOfLog()
            .map(line -> "the last line of its log is: " + line)
            .orElse("its log is empty")
        : problem;
  }

  private Duration pause(Duration lived) {
    if (lived.compareTo(timing.settled()) >= 0) {
      pauses.reset();
    }
    Duration pause = pauses.next();
    notBefore = nanos.getAsLong() + pause.toNanos();
    return pause;
  }

  // No supervisor lives that could write this too.
  private void giveUp() {
    String why = "its supervisor failed " + failures + " times in a row; " + reason();
    ClusterStatus.Builder end =
        cluster.status().toBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
            .clearWaitingFor()
            .setEndedAt(Messages.timestamp(Instant.now()));
    if (end.getOutcome() == ClusterOutcome.CLUSTER_OUTCOME_UNSPECIFIED) {
      end.setOutcome(ClusterOutcome.CLUSTER_OUTCOME_FAILED)
          .setWhy(why)
          .setExitCode(ExitCode.BERTH_FAILED);
    } else {
      end.addNotes(ClusterNote.newBuilder().setAt(end.getEndedAt()).setText(why));
    }
    cluster.end(end.build());
    log.error("gave up on {} ({}): {}", cluster.id(), cluster.name(), why);
  }
}
