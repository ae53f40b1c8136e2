package berth.client.cluster;

import berth.client.spec.GpuServer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.v1.ClusterNote;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntFunction;

/**
 * What happened between two states of a supervised cluster. A pure function: states in between may
 * be missing, and still every attempt of every task is told of once, the steps of each task in
 * their order.
 */
final class ClusterChanges {
  /** One thing that happened. */
  sealed interface Change {
    /** To all of the cluster. */
    record OfCluster(ClusterEvent event) implements Change {}

    /** To an attempt of a task: it started, ended, or is to come. */
    record OfTask(TaskName task, TaskAttempt attempt, ClusterEvent event) implements Change {}

    /** A server has accepted the run of an attempt, so that its output can be read there. */
    record Accepted(TaskName task, TaskAttempt attempt) implements Change {}
  }

  // Those in which the last formation is over and the next has not begun.
  private static final Set<ClusterPhase> BETWEEN_FORMATIONS =
      Set.of(ClusterPhase.CLUSTER_PHASE_RESTARTING, ClusterPhase.CLUSTER_PHASE_WAITING);

  private static final Set<ClusterPhase> AFTER_RUNNING =
      Set.of(
          ClusterPhase.CLUSTER_PHASE_STOPPING,
          ClusterPhase.CLUSTER_PHASE_KEPT,
          ClusterPhase.CLUSTER_PHASE_ENDED);

  private ClusterChanges() {}

  /**
   * What happened since {@code before}.
   *
   * @param before an empty one for all that ever happened
   */
  static List<Change> between(ClusterStatus before, ClusterStatus after) {
    TreeMap<Integer, List<Change>> steps = steps(before, after);
    int present = after.getFormation();
    int first = Math.min(before.getFormation(), steps.isEmpty() ? present : steps.firstKey());
    List<Change> changes = new ArrayList<>();
    for (int formation = first; formation <= present; formation++) {
      if (formation == present) {
        addFormed(before, after, changes);
      }
      List<Change> ofTasks = steps.getOrDefault(formation, List.of());
      ofTasks.stream().filter(change -> !isRestarted(change)).forEach(changes::add);
      // After the task that is to blame, and before the others that are stopped because of it.
      if (reformings(before) < formation && formation <= reformings(after)) {
        add(changes, new ClusterEvent.Reforming(whyAgain(after, formation)));
      }
      ofTasks.stream().filter(ClusterChanges::isRestarted).forEach(changes::add);
    }
    addRest(before, after, changes);
    return changes;
  }

  /** What there is to tell of a cluster to somebody who comes now. */
  static List<Change> now(ClusterStatus status) {
    List<Change> changes = new ArrayList<>();
    if (ClusterStates.hasEnded(status)) {
      return changes;
    }
    ClusterStatus nothing = ClusterStatus.getDefaultInstance();
    if (status.getPhase() != ClusterPhase.CLUSTER_PHASE_WAITING) {
      addFormed(nothing, status, changes);
    }
    if (status.getPhase() == ClusterPhase.CLUSTER_PHASE_RESTARTING) {
      add(changes, new ClusterEvent.Reforming(whyAgain(status, status.getFormation())));
    }
    for (TaskStatus task : status.getTasksList()) {
      TaskAttempt last = ClusterStates.last(task).orElse(TaskAttempt.getDefaultInstance());
      if (!ClusterStates.hasEnded(last)) {
        addSteps(ClusterStates.name(task), TaskAttempt.getDefaultInstance(), last, changes);
      }
    }
    addRest(status.toBuilder().clearPhase().build(), status, changes);
    return changes;
  }

  /** What happened to attempts, by the formations that these belong to. */
  private static TreeMap<Integer, List<Change>> steps(ClusterStatus before, ClusterStatus after) {
    Map<TaskName, TaskStatus> known = new HashMap<>();
    before.getTasksList().forEach(task -> known.put(ClusterStates.name(task), task));
    TreeMap<Integer, List<Change>> steps = new TreeMap<>();
    for (TaskStatus task : after.getTasksList()) {
      TaskName name = ClusterStates.name(task);
      addSteps(
          name,
          known.getOrDefault(name, TaskStatus.getDefaultInstance()),
          task,
          formation ->
              steps.computeIfAbsent(
                  Math.min(formation, after.getFormation()), f -> new ArrayList<>()));
    }
    return steps;
  }

  private static void addSteps(
      TaskName name, TaskStatus before, TaskStatus after, IntFunction<List<Change>> formations) {
    Map<Integer, TaskAttempt> known = new HashMap<>();
    before.getAttemptsList().forEach(attempt -> known.put(attempt.getNumber(), attempt));
    int newest = ClusterStates.last(before).map(TaskAttempt::getNumber).orElse(0);
    TaskAttempt previous = TaskAttempt.getDefaultInstance();
    for (TaskAttempt attempt : after.getAttemptsList()) {
      TaskAttempt old = known.get(attempt.getNumber());
      List<Change> changes = formations.apply(attempt.getFormation());
      if (old != null) {
        addSteps(name, old, attempt, changes);
      } else if (attempt.getNumber() > newest) {
        if (follows(previous, attempt)) {
          changes.add(new Change.OfTask(name, attempt, restarting(name, previous, attempt)));
        }
        addSteps(name, TaskAttempt.getDefaultInstance(), attempt, changes);
      }
      previous = attempt;
    }
  }

  /** Whether a task alone was started again, rather than all of the cluster. */
  private static boolean follows(TaskAttempt previous, TaskAttempt attempt) {
    return previous.getNumber() > 0
        && previous.getNumber() == attempt.getNumber() - 1
        && previous.getFormation() == attempt.getFormation();
  }

  private static ClusterEvent restarting(TaskName name, TaskAttempt previous, TaskAttempt attempt) {
    return new ClusterEvent.Restarting(
        name, attempt.getNumber(), Duration.ZERO, ClusterStates.result(name, previous).why());
  }

  // The start comes first: it is known already, and reading the output takes its time.
  private static void addSteps(
      TaskName name, TaskAttempt before, TaskAttempt after, List<Change> changes) {
    if (after.hasStartedAt() && !before.hasStartedAt()) {
      changes.add(new Change.OfTask(name, after, started(name, after)));
    }
    if (!after.getRunId().isEmpty() && before.getRunId().isEmpty()) {
      changes.add(new Change.Accepted(name, after));
    }
    if (ClusterStates.hasEnded(after) && !ClusterStates.hasEnded(before)) {
      ClusterEvent ended = new ClusterEvent.Ended(ClusterStates.result(name, after));
      changes.add(new Change.OfTask(name, after, ended));
    }
  }

  static ClusterEvent.Started started(TaskName name, TaskAttempt attempt) {
    return new ClusterEvent.Started(
        name, attempt.getServer(), attempt.getRunId(), List.copyOf(attempt.getGpusList()));
  }

  private static boolean isRestarted(Change change) {
    return change instanceof Change.OfTask step
        && step.event() instanceof ClusterEvent.Ended ended
        && ended.result().end() == TaskResult.End.RESTARTED;
  }

  /** How often it began to start again. */
  private static int reformings(ClusterStatus status) {
    int formation = status.getFormation();
    return BETWEEN_FORMATIONS.contains(status.getPhase()) ? formation : Math.max(0, formation - 1);
  }

  /** Why everything started again after a formation; empty if nobody knows any more. */
  private static String whyAgain(ClusterStatus status, int formation) {
    boolean present = formation == status.getFormation();
    if (present && status.getPhase() == ClusterPhase.CLUSTER_PHASE_RESTARTING) {
      return status.getWaitingFor();
    }
    record Blamed(TaskName task, TaskAttempt attempt) {
      String words() {
        return task
            + " on "
            + attempt.getServer()
            + ": "
            + ClusterStates.result(task, attempt).why();
      }
    }
    return status.getTasksList().stream()
        .flatMap(
            task ->
                task.getAttemptsList().stream()
                    .filter(attempt -> attempt.getFormation() == formation)
                    .reduce((before, last) -> last)
                    .filter(ClusterChanges::isToBlame)
                    .map(attempt -> new Blamed(ClusterStates.name(task), attempt))
                    .stream())
        .min(Comparator.comparing(blamed -> Messages.instant(blamed.attempt.getEndedAt())))
        .map(Blamed::words)
        .orElse("");
  }

  private static boolean isToBlame(TaskAttempt attempt) {
    TaskEnd end = attempt.getEnd();
    return ClusterStates.hasEnded(attempt)
        && end != TaskEnd.TASK_END_RESTARTED
        && end != TaskEnd.TASK_END_STOPPED
        && end != TaskEnd.TASK_END_CANCELLED
        && !(end == TaskEnd.TASK_END_FINISHED && attempt.getExitCode() == 0);
  }

  private static void addFormed(ClusterStatus before, ClusterStatus after, List<Change> changes) {
    boolean told = before.getFormation() == after.getFormation() && placement(before).isPresent();
    if (!told) {
      placement(after).ifPresent(formed -> add(changes, formed));
    }
  }

  /** Where the tasks are, if that is known of all. */
  private static Optional<ClusterEvent> placement(ClusterStatus status) {
    Map<TaskName, GpuServer> servers = new LinkedHashMap<>();
    Map<TaskName, Address> addresses = new LinkedHashMap<>();
    for (TaskStatus task : status.getTasksList()) {
      TaskAttempt last = ClusterStates.last(task).orElse(TaskAttempt.getDefaultInstance());
      Optional<Address> server = address(last.getServerAddress());
      Optional<Address> address = address(last.getAddress());
      if (last.getFormation() != status.getFormation() || server.isEmpty() || address.isEmpty()) {
        return Optional.empty();
      }
      servers.put(ClusterStates.name(task), server(last.getServer(), server.get()));
      addresses.put(ClusterStates.name(task), address.get());
    }
    return servers.isEmpty()
        ? Optional.empty()
        : Optional.of(
            new ClusterEvent.Formed(new ClusterPlan(servers), new ClusterSpec(addresses)));
  }

  private static Optional<Address> address(String text) {
    try {
      return text.isEmpty() ? Optional.empty() : Optional.of(Address.parse(text, 0));
    } catch (BerthException e) {
      return Optional.empty();
    }
  }

  // More of it is not known here.
  private static GpuServer server(String name, Address address) {
    return new GpuServer(
        name, address, List.of(), 0, 0, 0, Map.of(), Set.of(), "", false, true, false, 0, "");
  }

  private static void addRest(ClusterStatus before, ClusterStatus after, List<Change> changes) {
    if (waits(after)
        && !(waits(before)
            && before.getFormation() == after.getFormation()
            && before.getWaitingFor().equals(after.getWaitingFor()))) {
      add(changes, new ClusterEvent.Waiting(after.getWaitingFor()));
    }
    if (allStarted(after)
        && !(allStarted(before) && before.getFormation() == after.getFormation())) {
      add(changes, new ClusterEvent.AllStarted());
    }
    newNotes(before.getNotesList(), after.getNotesList())
        .forEach(note -> add(changes, new ClusterEvent.Note(note.getText())));
    if (isKept(after) && !isKept(before)) {
      add(changes, new ClusterEvent.Note(kept(after)));
    }
  }

  private static boolean waits(ClusterStatus status) {
    return status.getPhase() == ClusterPhase.CLUSTER_PHASE_WAITING
        && !status.getWaitingFor().isEmpty();
  }

  // If the phase in which all ran was not seen, the tasks say so.
  private static boolean allStarted(ClusterStatus status) {
    return status.getPhase() == ClusterPhase.CLUSTER_PHASE_RUNNING
        || AFTER_RUNNING.contains(status.getPhase())
            && status.getTasksCount() > 0
            && status.getTasksList().stream()
                .allMatch(
                    task ->
                        task.getAttemptsList().stream()
                            .anyMatch(
                                attempt ->
                                    attempt.getFormation() == status.getFormation()
                                        && attempt.hasStartedAt()));
  }

  private static boolean isKept(ClusterStatus status) {
    return status.getPhase() == ClusterPhase.CLUSTER_PHASE_KEPT;
  }

  // Else people would wonder why it does not end.
  private static String kept(ClusterStatus status) {
    String over =
        status.getOutcome() == ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED
            ? "the training is over"
            : status.getWhy().isEmpty() ? "it has failed" : status.getWhy();
    return over
        + "; running tasks are kept, and 'berth cluster cancel "
        + status.getName()
        + "' ends it";
  }

  /** Those that follow what is in both: the oldest are dropped when there are too many. */
  private static List<ClusterNote> newNotes(List<ClusterNote> before, List<ClusterNote> after) {
    for (int dropped = 0; dropped < before.size(); dropped++) {
      List<ClusterNote> kept = before.subList(dropped, before.size());
      if (kept.size() <= after.size() && after.subList(0, kept.size()).equals(kept)) {
        return after.subList(kept.size(), after.size());
      }
    }
    return after;
  }

  private static void add(List<Change> changes, ClusterEvent event) {
    changes.add(new Change.OfCluster(event));
  }
}
