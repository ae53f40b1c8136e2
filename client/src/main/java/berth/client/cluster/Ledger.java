package berth.client.cluster;

import berth.client.call.ThisUser;
import berth.rpc.Address;
import berth.rpc.Messages;
import berth.v1.ClusterNote;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import java.io.IOException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * What a cluster has been through and what it is about to do, written down before it does it: one
 * who reads it later can go on, and starts nothing twice. Any thread may call.
 */
final class Ledger {
  private static final int MOST_ATTEMPTS = 100;
  private static final int MOST_NOTES = 100;
  private static final Duration SAVE_AGAIN = Duration.ofSeconds(1);

  /** Where it is kept. */
  interface Store {
    /** Returns when it is safe there, whatever happens to this process. */
    void save(ClusterStatus status) throws IOException;
  }

  private final Store store;
  private final boolean supervised;
  private final Clock clock;
  private final ClusterStatus.Builder status;
  private final Map<TaskName, Integer> places = new HashMap<>();
  private final Object saving = new Object();
  private long version;
  private long savedVersion;
  private boolean unsaved;

  private Ledger(Store store, boolean supervised, Clock clock, ClusterStatus begun) {
    this.store = store;
    this.supervised = supervised;
    this.clock = clock;
    this.status = begun.toBuilder();
  }

  /** One that nobody reads later: its cluster ends with this process. */
  static Ledger inMemory() {
    return new Ledger(
        status -> {},
        false,
        Clock.systemUTC(),
        ClusterStatus.newBuilder().setOwner(ThisUser.owner()).build());
  }

  /**
   * One whose cluster outlives this process.
   *
   * @param begun as it was saved last, or as the cluster was handed over
   */
  static Ledger supervised(Store store, ClusterStatus begun, Clock clock) {
    return new Ledger(store, true, clock, begun);
  }

  /** Names the tasks; what is known of them stays. */
  synchronized void begin(ClusterRequest request) {
    if (status.getTasksCount() == 0) {
      for (TaskName task : request.tasks()) {
        status.addTasks(
            TaskStatus.newBuilder()
                .setType(task.type())
                .setIndex(task.index())
                .setGpuCount(request.group(task).gpuCount()));
      }
    }
    for (int i = 0; i < status.getTasksCount(); i++) {
      TaskStatus task = status.getTasks(i);
      places.put(new TaskName(task.getType(), task.getIndex()), i);
    }
    request
        .policy()
        .timeToLive()
        .or(() -> Optional.of(ClusterPolicy.USUAL_TIME_TO_LIVE))
        .ifPresent(time -> status.setTimeToLive(Messages.duration(time)));
    version++;
  }

  /** Whether its cluster goes on without the one who started it. */
  boolean supervised() {
    return supervised;
  }

  synchronized Owner owner() {
    return status.getOwner();
  }

  synchronized ClusterStatus status() {
    return status.build();
  }

  synchronized ClusterPhase phase() {
    return status.getPhase();
  }

  /** The outcome, once it is certain. */
  synchronized Optional<ClusterResult.Outcome> outcome() {
    return switch (status.getOutcome()) {
      case CLUSTER_OUTCOME_SUCCEEDED -> Optional.of(ClusterResult.Outcome.SUCCEEDED);
      case CLUSTER_OUTCOME_FAILED -> Optional.of(ClusterResult.Outcome.FAILED);
      case CLUSTER_OUTCOME_TIME_LIMIT -> Optional.of(ClusterResult.Outcome.TIME_LIMIT);
      case CLUSTER_OUTCOME_CANCELLED -> Optional.of(ClusterResult.Outcome.CANCELLED);
      case CLUSTER_OUTCOME_UNSPECIFIED, UNRECOGNIZED -> Optional.empty();
    };
  }

  /** Whether what it had reserved last may still be there. */
  synchronized boolean formed() {
    return switch (status.getPhase()) {
      case CLUSTER_PHASE_STARTING,
          CLUSTER_PHASE_RUNNING,
          CLUSTER_PHASE_RESTARTING,
          CLUSTER_PHASE_STOPPING,
          CLUSTER_PHASE_KEPT ->
          status.getFormation() > 0;
      case CLUSTER_PHASE_UNSPECIFIED, CLUSTER_PHASE_WAITING, CLUSTER_PHASE_ENDED, UNRECOGNIZED ->
          false;
    };
  }

  synchronized int restarts() {
    return status.getRestarts();
  }

  synchronized int restarts(TaskName task) {
    return task(task).getRestarts();
  }

  synchronized int resubmissions() {
    return status.getResubmissions();
  }

  /** What is left of the time of the present formation; empty: it is not limited. */
  synchronized Optional<Duration> timeLeft() {
    return status.hasEndsBy()
        ? Optional.of(Duration.between(clock.instant(), Messages.instant(status.getEndsBy())))
        : Optional.empty();
  }

  /** The last start of a task. */
  synchronized TaskAttempt attempt(TaskName task) {
    TaskStatus.Builder of = task(task);
    return of.getAttempts(of.getAttemptsCount() - 1);
  }

  /** How long the last start of a task has been running; not at all if it has not started. */
  synchronized Duration ranFor(TaskName task) {
    TaskAttempt attempt = attempt(task);
    Duration time =
        attempt.hasStartedAt()
            ? Duration.between(Messages.instant(attempt.getStartedAt()), clock.instant())
            : Duration.ZERO;
    return time.isNegative() ? Duration.ZERO : time;
  }

  /** How many of the last starts of a task ended soon, the very last included. */
  synchronized int quickEnds(TaskName task) {
    List<TaskAttempt> attempts = task(task).getAttemptsList();
    int count = 0;
    for (int i = attempts.size() - 1; i >= 0; i--) {
      if (ClusterPolicy.ranLong(Messages.duration(attempts.get(i).getWallTime()))) {
        break;
      }
      count++;
    }
    return Math.max(count, 1);
  }

  /** How many of the last starts of a task in this formation failed, without a break. */
  synchronized int failedStarts(TaskName task) {
    List<TaskAttempt> attempts = task(task).getAttemptsList();
    int count = 0;
    while (count < attempts.size()) {
      TaskAttempt attempt = attempts.get(attempts.size() - 1 - count);
      if (attempt.getFormation() != status.getFormation()
          || attempt.getEnd() != TaskEnd.TASK_END_NOT_STARTED) {
        break;
      }
      count++;
    }
    return count;
  }

  void waiting(String why) {
    change(
        () -> {
          status.setPhase(ClusterPhase.CLUSTER_PHASE_WAITING).setWaitingFor(why);
        });
    trySave();
  }

  /**
   * Everything is reserved, and every task is about to be started.
   *
   * @param timeLimit of the whole cluster
   */
  void formed(GangReservation gang, Optional<Duration> timeLimit) {
    change(
        () -> {
          Instant now = clock.instant();
          Optional<Duration> left =
              status.hasTimeLeft()
                  ? Optional.of(Messages.duration(status.getTimeLeft()))
                  : timeLimit;
          status
              .setPhase(ClusterPhase.CLUSTER_PHASE_STARTING)
              .clearWaitingFor()
              .clearTimeLeft()
              .setFormation(status.getFormation() + 1)
              .setFormedAt(Messages.timestamp(now));
          left.ifPresent(time -> status.setEndsBy(Messages.timestamp(now.plus(time))));
          for (TaskName task : places.keySet()) {
            Reservation held = gang.reservation(task);
            Address at = gang.spec().address(task);
            add(
                task,
                TaskAttempt.newBuilder()
                    .setServer(gang.server(task).name())
                    .setServerAddress(gang.server(task).address().toString())
                    .setAddress(at.toString())
                    .setReservationId(held.getReservationId())
                    .addAllGpus(held.getGpusList().stream().map(ReservedGpu::getIndex).toList())
                    .setRequestId(newRequestId()));
          }
        });
    save();
  }

  /** A task is about to be started again where it was. */
  void again(TaskName task) {
    change(
        () -> {
          TaskAttempt last = attempt(task);
          add(
              task,
              TaskAttempt.newBuilder()
                  .setServer(last.getServer())
                  .setServerAddress(last.getServerAddress())
                  .setAddress(last.getAddress())
                  .setReservationId(last.getReservationId())
                  .addAllGpus(last.getGpusList())
                  .setRequestId(inDoubt(last) ? last.getRequestId() : newRequestId()));
          task(task).setRestarts(task(task).getRestarts() + 1);
          status.setRestarts(status.getRestarts() + 1);
        });
    save();
  }

  // A server that did not answer may have taken the request all the same: asked by the same id, it
  // goes on with that run, and only one that never knew it starts another.
  private static boolean inDoubt(TaskAttempt last) {
    return last.getEnd() == TaskEnd.TASK_END_NOT_STARTED && last.getRunId().isEmpty();
  }

  private static String newRequestId() {
    return UUID.randomUUID().toString();
  }

  // With the id by which its server recognises the request, should it come twice.
  private void add(TaskName task, TaskAttempt.Builder attempt) {
    TaskStatus.Builder to = task(task);
    int last =
        to.getAttemptsCount() == 0 ? 0 : to.getAttempts(to.getAttemptsCount() - 1).getNumber();
    to.addAttempts(attempt.setNumber(last + 1).setFormation(status.getFormation()));
    if (to.getAttemptsCount() > MOST_ATTEMPTS) {
      to.removeAttempts(0);
    }
  }

  void accepted(TaskName task, String runId) {
    change(() -> last(task).setRunId(runId));
    trySave();
  }

  void started(TaskName task) {
    change(
        () -> {
          if (!last(task).hasStartedAt()) {
            last(task).setStartedAt(now());
          }
        });
    trySave();
  }

  void allStarted() {
    change(
        () -> {
          if (status.getPhase() == ClusterPhase.CLUSTER_PHASE_STARTING) {
            status.setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING);
          }
        });
    trySave();
  }

  void ended(TaskResult result) {
    change(
        () -> {
          TaskAttempt.Builder attempt = last(result.task());
          attempt
              .setRunId(result.runId())
              .setEndedAt(now())
              .setEnd(TaskEnd.valueOf("TASK_END_" + result.end().name()))
              .setWhy(result.why())
              .setWallTime(Messages.duration(result.wallTime()));
          result.exitCode().ifPresent(attempt::setExitCode);
        });
    trySave();
  }

  /** How a task ended the last time, if it has. */
  synchronized Optional<TaskResult> result(TaskName task) {
    return ClusterStates.last(task(task).build())
        .filter(ClusterStates::hasEnded)
        .map(attempt -> ClusterStates.result(task, attempt));
  }

  /**
   * All tasks are about to be stopped, in order to start again.
   *
   * @param resubmission whether because the time was over, and not because something failed
   */
  void reforming(String why, boolean resubmission) {
    change(
        () -> {
          timeLeft()
              .filter(left -> !resubmission)
              .ifPresent(left -> status.setTimeLeft(Messages.duration(left)));
          status.setPhase(ClusterPhase.CLUSTER_PHASE_RESTARTING).setWaitingFor(why).clearEndsBy();
          if (resubmission) {
            status.setResubmissions(status.getResubmissions() + 1);
          } else {
            status.setRestarts(status.getRestarts() + 1);
          }
        });
    save();
  }

  /**
   * The outcome is certain.
   *
   * @param ended how tasks ended so far
   * @param kept whether tasks are left running
   */
  void decided(ClusterAttempt.Verdict.Over over, List<TaskResult> ended, boolean kept) {
    change(
        () ->
            status
                .setPhase(
                    kept ? ClusterPhase.CLUSTER_PHASE_KEPT : ClusterPhase.CLUSTER_PHASE_STOPPING)
                .clearWaitingFor()
                .setOutcome(ClusterOutcome.valueOf("CLUSTER_OUTCOME_" + over.outcome().name()))
                .setWhy(over.why())
                .setFailedTask(over.failed().map(TaskName::toString).orElse(""))
                .setExitCode(ClusterResult.exitCode(over.outcome(), over.failed(), ended)));
    save();
  }

  /** What was kept running is to end now. */
  void keptNoLonger() {
    change(() -> status.setPhase(ClusterPhase.CLUSTER_PHASE_STOPPING));
    trySave();
  }

  /** It is over and holds nothing. */
  void over() {
    change(
        () ->
            status
                .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
                .clearWaitingFor()
                .clearEndsBy()
                .setEndedAt(now()));
    save();
  }

  void note(String text) {
    addNote(text);
    trySave();
  }

  private void addNote(String text) {
    change(
        () -> {
          status.addNotes(ClusterNote.newBuilder().setAt(now()).setText(text));
          if (status.getNotesCount() > MOST_NOTES) {
            status.removeNotes(0);
          }
        });
  }

  private com.google.protobuf.Timestamp now() {
    return Messages.timestamp(clock.instant());
  }

  private TaskStatus.Builder task(TaskName task) {
    return status.getTasksBuilder(places.get(task));
  }

  private TaskAttempt.Builder last(TaskName task) {
    TaskStatus.Builder of = task(task);
    return of.getAttemptsBuilder(of.getAttemptsCount() - 1);
  }

  private synchronized void change(Runnable change) {
    change.run();
    version++;
  }

  /**
   * Writes down what could not be written down before, if there is anything; to be called now and
   * then.
   */
  void catchUp() {
    trySave();
  }

  // What is only good to know must not stop anything; it goes with the next save.
  private void trySave() {
    try {
      saveOnce();
    } catch (IOException e) {
      complain(e);
    }
  }

  // Nothing may happen that is not written down. A full disk is not for ever, but a second start
  // of a task is.
  private void save() {
    while (true) {
      try {
        saveOnce();
        return;
      } catch (IOException e) {
        complain(e);
      }
      try {
        TimeUnit.NANOSECONDS.sleep(SAVE_AGAIN.toNanos());
      } catch (InterruptedException e) {
        // The cluster is to end, and that must be written down too.
        Thread.currentThread().interrupt();
        return;
      }
    }
  }

  // Those who come while another one saves are saved together.
  private void saveOnce() throws IOException {
    long wanted;
    synchronized (this) {
      wanted = version;
    }
    synchronized (saving) {
      ClusterStatus snapshot;
      long snapshotVersion;
      synchronized (this) {
        if (savedVersion >= wanted) {
          return;
        }
        snapshot = status.build();
        snapshotVersion = version;
      }
      store.save(snapshot);
      savedVersion = snapshotVersion;
    }
    synchronized (this) {
      unsaved = false;
    }
  }

  // Where it cannot be written down it can be told nobody; it is told as soon as it can be again.
  private void complain(IOException e) {
    String problem = "its state cannot be written: " + e.getMessage();
    System.err.println("berth: " + problem);
    synchronized (this) {
      if (!unsaved) {
        unsaved = true;
        addNote(problem);
      }
    }
  }
}
