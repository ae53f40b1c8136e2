package berth.client.cluster;

import berth.client.call.RunRequests;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.rpc.BerthException;
import berth.v1.ClusterPhase;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * The part of a cluster's life in which it holds something and its tasks run, until all of them
 * have ended for good or all of it must start again. Decides, in one thread, what each piece of
 * news means.
 */
final class ClusterAttempt {
  // A server that could not start a task so often is left for others, if there are any.
  private static final int MOST_FAILED_STARTS = 2;
  private static final int MOST_NAMED = 5;

  /** What the thread that leads the cluster is told. */
  sealed interface News {
    /** The program of a task runs. */
    record TaskStarted(Task task) implements News {}

    /**
     * A task has ended.
     *
     * @param known whether that was written down before
     */
    record TaskEnded(Task task, TaskResult result, boolean known) implements News {}

    /** Whether a task that is to be started again still holds what it had. */
    record HoldChecked(Task ended, boolean held) implements News {}

    /** Somebody wants all of it to end. */
    record StopAsked(boolean force) implements News {}
  }

  /** How it went on. */
  sealed interface Verdict {
    /** It is over. */
    record Over(Outcome outcome, String why, Optional<TaskName> failed) implements Verdict {}

    /**
     * All of it is to start again.
     *
     * @param resubmission because its time was over, not because something failed
     * @param avoided servers that are better left alone then
     */
    record Again(String why, boolean resubmission, Set<String> avoided) implements Verdict {}
  }

  /** Something that is to happen at a certain time. */
  private sealed interface Alarm {
    /** All tasks should run by then. */
    record Started() implements Alarm {}

    /** The evaluators had their time. */
    record EvaluatorsDone() implements Alarm {}

    /** The workers had their time after their chief. */
    record WorkersDone() implements Alarm {}

    /** Nobody may look inside any more. */
    record KeptLongEnough() implements Alarm {}

    /** A task may be started again. */
    record Restart(TaskName task) implements Alarm {}
  }

  private final ClusterRequest request;
  private final TrainingGoal goal;
  private final GangReservation gang;
  private final Ledger ledger;
  private final Map<String, RunRequests> requests;
  private final ExecutorService threads;
  private final BlockingQueue<News> news;
  private final Consumer<ClusterEvent> events;

  private final Map<TaskName, Task> tasks = new LinkedHashMap<>();
  private final Map<TaskName, TaskResult> results = new HashMap<>();
  // Those that have ended and will be started again.
  private final Set<TaskName> paused = new HashSet<>();
  // Those of whose start nothing is known yet.
  private final Set<TaskName> missing = new LinkedHashSet<>();
  private final Map<Alarm, Long> alarms = new HashMap<>();
  private Optional<Verdict.Over> over = Optional.empty();
  private Optional<Verdict.Again> again = Optional.empty();

  /**
   * @param gang what it holds, which the ledger knows
   * @param requests by the types of tasks
   * @param events is told what happens, by any thread
   */
  ClusterAttempt(
      ClusterRequest request,
      GangReservation gang,
      Ledger ledger,
      Map<String, RunRequests> requests,
      ExecutorService threads,
      BlockingQueue<News> news,
      Consumer<ClusterEvent> events) {
    this.request = request;
    this.goal = new TrainingGoal(request);
    this.gang = gang;
    this.ledger = ledger;
    this.requests = requests;
    this.threads = threads;
    this.news = news;
    this.events = events;
  }

  /** Starts all tasks, or goes on with them, and returns when they have all ended. */
  Verdict live() {
    begin();
    while (results.size() < tasks.size()) {
      News next = next();
      if (next instanceof News.TaskStarted start) {
        hasStarted(start.task());
      } else if (next instanceof News.TaskEnded end) {
        hasEnded(end);
      } else if (next instanceof News.HoldChecked checked) {
        holdChecked(checked);
      } else if (next instanceof News.StopAsked asked) {
        cancel(asked.force());
      } else {
        soundAlarms();
      }
    }
    if (over.isEmpty() && again.isPresent()) {
      return again.get();
    }
    return over.orElseGet(
        () -> new Verdict.Over(Outcome.FAILED, "all tasks have ended", Optional.empty()));
  }

  private void begin() {
    boolean restarting = ledger.phase() == ClusterPhase.CLUSTER_PHASE_RESTARTING;
    boolean ending = restarting || ledger.outcome().isPresent();
    for (TaskName name : request.tasks()) {
      Task task = task(name);
      missing.add(name);
      Optional<TaskResult> known = ledger.result(name);
      if (known.isEmpty()) {
        run(task);
      } else if (ending) {
        results.put(name, known.get());
      } else {
        // What follows from it may not have been done.
        news.add(new News.TaskEnded(task, known.get(), true));
      }
    }
    if (ledger.outcome().isPresent()) {
      resumeTheEnd();
    } else if (restarting) {
      again = Optional.of(new Verdict.Again(ledger.status().getWaitingFor(), false, Set.of()));
      stopAll(End.RESTARTED, false);
    } else {
      alarm(new Alarm.Started(), request.startTimeout());
    }
  }

  private Task task(TaskName name) {
    Task task = new Task(name, request, gang, ledger, requests.get(name.type()), this::fromTask);
    tasks.put(name, task);
    return task;
  }

  private void run(Task task) {
    threads.execute(() -> news.add(new News.TaskEnded(task, task.run(), false)));
  }

  private void fromTask(Task task, ClusterEvent event) {
    events.accept(event);
    if (event instanceof ClusterEvent.Started) {
      news.add(new News.TaskStarted(task));
    }
  }

  // The one who decided it was killed before all tasks had ended.
  private void resumeTheEnd() {
    var known = ledger.status();
    Optional<TaskName> failed =
        tasks.keySet().stream()
            .filter(task -> task.toString().equals(known.getFailedTask()))
            .findFirst();
    over = Optional.of(new Verdict.Over(ledger.outcome().get(), known.getWhy(), failed));
    if (known.getPhase() == ClusterPhase.CLUSTER_PHASE_KEPT) {
      alarm(new Alarm.KeptLongEnough(), request.policy().timeToLook());
    } else {
      stopAll(over.get().outcome() == Outcome.SUCCEEDED ? End.STOPPED : End.CANCELLED, false);
    }
  }

  private void alarm(Alarm alarm, Duration in) {
    alarms.put(alarm, System.nanoTime() + in.toNanos());
  }

  /** The next piece of news; null if an alarm is due first. */
  private News next() {
    try {
      long now = System.nanoTime();
      var first = alarms.values().stream().mapToLong(due -> due - now).min();
      return first.isEmpty()
          ? news.take()
          : news.poll(Math.max(0, first.getAsLong()), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      return new News.StopAsked(true);
    }
  }

  private void soundAlarms() {
    long now = System.nanoTime();
    List<Alarm> due =
        alarms.entrySet().stream()
            .filter(alarm -> alarm.getValue() - now <= 0)
            .map(Map.Entry::getKey)
            .toList();
    for (Alarm alarm : due) {
      alarms.remove(alarm);
      if (alarm instanceof Alarm.Started) {
        startIsOverdue();
      } else if (alarm instanceof Alarm.Restart restart) {
        checkHold(tasks.get(restart.task()));
      } else if (alarm instanceof Alarm.WorkersDone) {
        workersHadTheirTime();
      } else {
        ledger.keptNoLonger();
        stopAll(End.STOPPED, false);
      }
    }
  }

  private void hasStarted(Task task) {
    if (missing.remove(task.name()) && missing.isEmpty()) {
      alarms.remove(new Alarm.Started());
      ledger.allStarted();
      events.accept(new ClusterEvent.AllStarted());
    }
  }

  private void startIsOverdue() {
    String late =
        missing.stream()
            .map(tasks::get)
            .filter(task -> task.stage().compareTo(Task.Stage.RUNNING) < 0)
            .map(task -> task.name() + " on " + task.server() + " (" + task.progress() + ")")
            .collect(Collectors.joining(", "));
    // One may have started while a listener kept that from being told.
    if (!late.isEmpty()) {
      String why = "after " + request.startTimeout().toSeconds() + " s there is no " + late;
      note(why + "; all are stopped");
      decide(Outcome.FAILED, why, Optional.empty());
    }
  }

  private void hasEnded(News.TaskEnded end) {
    TaskResult result = end.result();
    TaskName name = result.task();
    if (tasks.get(name) != end.task()) {
      return;
    }
    if (!end.known()) {
      ledger.ended(result);
      events.accept(new ClusterEvent.Ended(result));
    }
    if (over.isPresent() || again.isPresent()) {
      results.put(name, result);
      stopUnlessSaving();
    } else if (timeIsOver(result)) {
      results.put(name, result);
      timeIsOver(name, result);
    } else if (!startsAgain(end.task(), result)) {
      results.put(name, result);
      endedForGood(end.task(), result);
    }
  }

  private boolean timeIsOver(TaskResult result) {
    return result.end() == End.TIME_LIMIT || resubmissionsLeft() > 0 && gaveUpInTime(result);
  }

  // A program that is warned may save what it has, and end before its time is over.
  private boolean gaveUpInTime(TaskResult result) {
    boolean warned =
        request
            .warning(result.task())
            .flatMap(
                warning -> ledger.timeLeft().map(left -> left.compareTo(warning.before()) <= 0))
            .orElse(false);
    return warned && result.end() == End.FINISHED && !result.well();
  }

  private int resubmissionsLeft() {
    return request.policy().resubmissions() - ledger.resubmissions();
  }

  private void timeIsOver(TaskName name, TaskResult result) {
    if (resubmissionsLeft() > 0) {
      startAllAgain(
          "its time is over (resubmission "
              + (ledger.resubmissions() + 1)
              + " of "
              + request.policy().resubmissions()
              + ")",
          true,
          Set.of());
    } else {
      decide(Outcome.TIME_LIMIT, result.described(), Optional.of(name));
    }
  }

  /** Whether a task restarts, alone or with all others; that is on its way then. */
  private boolean startsAgain(Task task, TaskResult result) {
    TaskName name = task.name();
    TaskGroup group = request.group(name);
    if (!group.restart().restarts(result)) {
      return false;
    }
    String why = result.described();
    Optional<String> spent = budgetSpent(group, name);
    if (spent.isPresent()) {
      note(why + "; " + spent.get());
      return false;
    }
    if (request.policy().wholeRestarts()) {
      results.put(name, result);
      startAllAgain(why, false, Set.of());
    } else if (ledger.failedStarts(name) >= MOST_FAILED_STARTS) {
      results.put(name, result);
      startAllAgain(why, false, Set.of(task.server()));
    } else {
      Duration pause = request.policy().pause(ledger.quickEnds(name));
      events.accept(new ClusterEvent.Restarting(name, result.attempt() + 1, pause, result.words()));
      paused.add(name);
      alarm(new Alarm.Restart(name), pause);
    }
    return true;
  }

  private Optional<String> budgetSpent(TaskGroup group, TaskName name) {
    if (ledger.restarts(name) >= group.maxRestarts()) {
      return Optional.of("restart limit of the task reached: " + times(group.maxRestarts()));
    }
    int most = request.policy().maxRestarts();
    return ledger.restarts() >= most
        ? Optional.of("restart limit of the cluster reached: " + times(most))
        : Optional.empty();
  }

  private static String times(int count) {
    return count == 1 ? "once" : count + " times";
  }

  // By a thread of its own: a server that does not answer may take its time.
  private void checkHold(Task ended) {
    threads.execute(
        () -> {
          try {
            boolean held = gang.holds(ended.name(), request.stopGrace());
            news.add(new News.HoldChecked(ended, held));
          } catch (InterruptedException e) {
            // The cluster has ended.
          } catch (RuntimeException e) {
            news.add(new News.HoldChecked(ended, false));
          }
        });
  }

  private void holdChecked(News.HoldChecked checked) {
    TaskName name = checked.ended().name();
    if (tasks.get(name) != checked.ended() || !paused.remove(name)) {
      // All of it is being stopped meanwhile.
      return;
    }
    if (checked.held()) {
      ledger.again(name);
      run(task(name));
      return;
    }
    TaskResult result = ledger.result(name).orElseThrow();
    results.put(name, result);
    startAllAgain(
        checked.ended().server() + " is lost for " + name + ": " + result.words(), false, Set.of());
  }

  private void startAllAgain(String why, boolean resubmission, Set<String> avoided) {
    int most = request.policy().maxRestarts();
    if (!resubmission && ledger.restarts() >= most) {
      decide(Outcome.FAILED, why + "; restarts so far: " + most, Optional.empty());
      return;
    }
    again = Optional.of(new Verdict.Again(why, resubmission, avoided));
    ledger.reforming(why, resubmission);
    events.accept(new ClusterEvent.Reforming(why));
    if (!resubmission) {
      stopAll(End.RESTARTED, false);
    } else {
      stopUnlessSaving();
    }
  }

  // All trainers were warned and may still be saving what the parameter servers have; their servers
  // end them when their time is over.
  private void stopUnlessSaving() {
    boolean saving = running().stream().anyMatch(task -> request.group(task).trains());
    if (over.isEmpty() && again.get().resubmission() && !saving) {
      stopAll(End.RESTARTED, false);
    }
  }

  private void endedForGood(Task task, TaskResult result) {
    TaskName name = task.name();
    if (result.well()) {
      if (goal.reached(results)) {
        decide(Outcome.SUCCEEDED, "", Optional.empty());
      } else {
        hasStarted(task);
        giveWorkersTime();
      }
    } else if (name.type().equals(TaskGroup.TENSORBOARD)) {
      // It may end without a start, and nobody waits for it then.
      hasStarted(task);
    } else if (goal.reachableWithout(name, results)) {
      note(result.described() + "; there are enough others");
      hasStarted(task);
    } else {
      if (!running().isEmpty() && stopsAll()) {
        note("the others are stopped");
      }
      decide(Outcome.FAILED, result.described(), Optional.of(name));
    }
  }

  private void cancel(boolean force) {
    boolean decided = over.isPresent();
    if (!decided) {
      over =
          Optional.of(
              new Verdict.Over(
                  Outcome.CANCELLED, "it was cancelled from outside", Optional.empty()));
      ledger.decided(over.get(), results(), false);
    } else {
      ledger.keptNoLonger();
    }
    stopAll(
        decided && over.get().outcome() == Outcome.SUCCEEDED ? End.STOPPED : End.CANCELLED, force);
  }

  /** Settles how it ends, and stops what is not to go on. */
  private void decide(Outcome outcome, String why, Optional<TaskName> failed) {
    over = Optional.of(new Verdict.Over(outcome, why, failed));
    alarms.clear();
    giveUpPaused();
    End end = outcome == Outcome.SUCCEEDED ? End.STOPPED : End.CANCELLED;
    boolean stopsPs = request.policy().cleaning() == Cleaning.PS;
    Set<TaskName> stopped =
        running().stream()
            .filter(task -> stopsAll() || stopsPs && request.group(task).background())
            .filter(task -> !(outcome == Outcome.SUCCEEDED && isEvaluator(task)))
            .collect(Collectors.toSet());
    boolean kept = !stopsAll() && stopped.size() < running().size();
    ledger.decided(over.get(), results(), kept);
    stopped.forEach(task -> stop(task, end, false));
    if (kept) {
      keep(running().stream().filter(task -> !stopped.contains(task)).toList());
    } else if (outcome == Outcome.SUCCEEDED) {
      giveEvaluatorsTime();
    }
  }

  private boolean stopsAll() {
    Cleaning cleaning = request.policy().cleaning();
    return cleaning == Cleaning.ALL || cleaning == Cleaning.RUNNING;
  }

  private void keep(List<TaskName> going) {
    Duration time = request.policy().timeToLook();
    note(
        going.stream().map(TaskName::toString).collect(Collectors.joining(", "))
            + (going.size() == 1 ? " goes" : " go")
            + " on for "
            + time.toSeconds()
            + " s at most, or until the cluster is cancelled");
    alarm(new Alarm.KeptLongEnough(), time);
  }

  private void giveWorkersTime() {
    List<TaskName> late = goal.outlivingChief(results);
    Alarm done = new Alarm.WorkersDone();
    if (!late.isEmpty() && !alarms.containsKey(done)) {
      int more = late.size() - MOST_NAMED;
      note(
          request.leader()
              + " has finished; waiting up to "
              + request.workerGrace().toSeconds()
              + " s for "
              + late.stream()
                  .limit(MOST_NAMED)
                  .map(TaskName::toString)
                  .collect(Collectors.joining(", "))
              + (more > 0 ? " and " + more + " more" : ""));
      alarm(done, request.workerGrace());
    }
  }

  private void workersHadTheirTime() {
    // They may be saving what they have in order to start again.
    if (again.isEmpty()) {
      decide(Outcome.SUCCEEDED, "", Optional.empty());
    }
  }

  private void giveEvaluatorsTime() {
    String evaluators =
        running().stream()
            .filter(this::isEvaluator)
            .map(TaskName::toString)
            .collect(Collectors.joining(", "));
    if (!evaluators.isEmpty()) {
      // Else nobody would know why it does not end.
      note(
          "the training is over; "
              + evaluators
              + " may continue for "
              + request.evaluatorGrace().toSeconds()
              + " s");
      alarm(new Alarm.EvaluatorsDone(), request.evaluatorGrace());
    }
  }

  private boolean isEvaluator(TaskName task) {
    TaskGroup group = request.group(task);
    return !group.background() && !group.trains();
  }

  private List<TaskName> running() {
    return tasks.keySet().stream()
        .filter(task -> !results.containsKey(task) && !paused.contains(task))
        .toList();
  }

  private void giveUpPaused() {
    paused.forEach(task -> results.put(task, ledger.result(task).orElseThrow()));
    paused.clear();
  }

  private void stopAll(End reason, boolean force) {
    alarms.clear();
    giveUpPaused();
    running().forEach(task -> stop(task, reason, force));
  }

  // Each by a thread of its own: one server that does not answer must not delay the others.
  private void stop(TaskName name, End reason, boolean force) {
    Task task = tasks.get(name);
    threads.execute(
        () -> {
          try {
            task.stop(reason, force);
          } catch (BerthException e) {
            note(name + " cannot be stopped: " + e.getMessage());
          } catch (InterruptedException e) {
            // The cluster has ended.
          }
        });
  }

  /** How the tasks ended that have, in their order. */
  List<TaskResult> results() {
    return tasks.keySet().stream().filter(results::containsKey).map(results::get).toList();
  }

  private void note(String text) {
    events.accept(new ClusterEvent.Note(text));
  }
}
