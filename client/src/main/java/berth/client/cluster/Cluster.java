package berth.client.cluster;

import berth.client.RegistryClient;
import berth.client.RunRequests;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * A cluster from its request to its end. It lives in threads of its own; any thread may call.
 *
 * <p>It ends with this process: whatever happens to that, its programs are stopped and everything
 * that it holds is free within half a minute.
 */
public final class Cluster implements AutoCloseable {
  private static final Duration RENEWAL = Gang.LEASE.dividedBy(5);

  /** What the thread that leads the cluster is told. */
  private sealed interface News {
    record TaskStarted(Task task) implements News {}

    record TaskEnded(Task task, TaskResult result) implements News {}

    record StopAsked(boolean force) implements News {}
  }

  private final ClusterRequest request;
  private final RegistryClient registry;
  private final Consumer<ClusterEvent> listener;
  private final ExecutorService threads;
  private final Thread leader;
  private final long start = System.nanoTime();
  private final LinkedBlockingQueue<News> news = new LinkedBlockingQueue<>();
  private final CompletableFuture<ClusterSpec> formed = new CompletableFuture<>();
  private final CompletableFuture<Void> started = new CompletableFuture<>();
  private final CompletableFuture<ClusterResult> ended = new CompletableFuture<>();
  private boolean forming = true;
  private final Object telling = new Object();
  private volatile Throwable listenerFailure;

  private Cluster(
      RegistryClient registry, ClusterRequest request, Consumer<ClusterEvent> listener) {
    this.registry = registry;
    this.request = request;
    this.listener = listener;
    this.threads =
        Executors.newCachedThreadPool(
            task -> {
              Thread thread = new Thread(task, "cluster-" + request.name());
              thread.setDaemon(true);
              return thread;
            });
    this.leader = new Thread(this::lead, "cluster-leader-" + request.name());
  }

  /**
   * Begins to form a cluster, and returns at once.
   *
   * @param listener is told what happens, never by two threads at a time; while it does not return,
   *     the tasks' output waits. What it throws ends the cluster.
   */
  public static Cluster start(
      RegistryClient registry, ClusterRequest request, Consumer<ClusterEvent> listener) {
    Cluster cluster = new Cluster(registry, request, listener);
    cluster.leader.setDaemon(true);
    cluster.leader.start();
    return cluster;
  }

  /** Where each task is, as soon as everything is reserved. Fails if that was not possible. */
  public CompletableFuture<ClusterSpec> formed() {
    return formed.copy();
  }

  /** Completes when the programs of all tasks run. Fails if the cluster ended before. */
  public CompletableFuture<Void> started() {
    return started.copy();
  }

  /**
   * How it ended, as soon as that is certain and everything is released. Fails with a {@link
   * BerthException} if it could never be formed, or with what the listener threw.
   */
  public CompletableFuture<ClusterResult> ended() {
    return ended.copy();
  }

  /**
   * The same for those who have time.
   *
   * @throws BerthException if it could not be formed, or this thread is interrupted: the cluster
   *     goes on then
   */
  public ClusterResult await() {
    try {
      return ended.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while a cluster runs", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException why) {
        throw why;
      }
      if (e.getCause() instanceof Error why) {
        throw why;
      }
      throw new IllegalStateException(e.getCause());
    }
  }

  /** Asks all tasks to end. */
  public void stop() {
    askToEnd(false);
  }

  /** Ends all tasks at once. */
  public void kill() {
    askToEnd(true);
  }

  /**
   * Ends it, if it has not ended, and returns when everything is released; at once if the listener
   * calls it, or who is told by one of the futures here: the end needs their threads.
   */
  @Override
  public void close() {
    kill();
    if (Thread.currentThread() == leader || Thread.holdsLock(telling)) {
      return;
    }
    try {
      ended.handle((result, failure) -> null).get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | CancellationException e) {
      throw new IllegalStateException("handled above", e);
    }
  }

  private synchronized void askToEnd(boolean force) {
    news.add(new News.StopAsked(force));
    if (forming) {
      leader.interrupt();
    }
  }

  private synchronized void formingIsOver() {
    forming = false;
    // A request to end is in the news too.
    Thread.interrupted();
  }

  private void lead() {
    try (Hosts hosts = new Hosts()) {
      ClusterResult result = carryOut(form(hosts));
      if (listenerFailure == null) {
        ended.complete(result);
      } else {
        ended.completeExceptionally(listenerFailure);
      }
    } catch (RuntimeException | Error e) {
      ended.completeExceptionally(listenerFailure == null ? e : listenerFailure);
    } finally {
      BerthException over = new BerthException(Reason.CONFLICT, "the cluster has ended");
      formed.completeExceptionally(over);
      started.completeExceptionally(over);
      threads.shutdownNow();
    }
  }

  private Gang form(Hosts hosts) {
    try {
      Gang gang =
          new Forming(registry, request, hosts, threads, why -> emit(new ClusterEvent.Waiting(why)))
              .form();
      formingIsOver();
      return gang;
    } catch (BerthException e) {
      formed.completeExceptionally(e);
      throw e;
    } finally {
      formingIsOver();
    }
  }

  private ClusterResult carryOut(Gang gang) {
    Map<String, RunRequests> requests = new HashMap<>();
    Thread renewer = renewing(gang);
    try {
      ClusterSpec spec = gang.spec();
      emit(new ClusterEvent.Formed(gang.plan(), spec));
      formed.complete(spec);
      request.groups().forEach(group -> requests.put(group.type(), new RunRequests(group.run())));
      List<Task> tasks = new ArrayList<>();
      for (TaskName name : request.tasks()) {
        Task task = new Task(name, request, spec, gang, requests.get(name.type()), this::fromTask);
        tasks.add(task);
      }
      for (Task task : tasks) {
        threads.execute(() -> news.add(new News.TaskEnded(task, task.run())));
      }
      return new Life(tasks).live();
    } finally {
      renewer.interrupt();
      gang.release(
          (task, why) ->
              emit(
                  new ClusterEvent.Note(
                      "what "
                          + task
                          + " held could not be released, and ends by itself within "
                          + Gang.LEASE.toSeconds()
                          + " s: "
                          + why.getMessage())));
      requests.values().forEach(RunRequests::close);
    }
  }

  private Thread renewing(Gang gang) {
    Thread renewer =
        new Thread(
            () -> {
              try {
                while (true) {
                  TimeUnit.NANOSECONDS.sleep(RENEWAL.toNanos());
                  gang.renew((task, why) -> {});
                }
              } catch (InterruptedException | CompletionException e) {
                // The cluster has ended.
              }
            },
            "cluster-leases-" + request.name());
    renewer.setDaemon(true);
    renewer.start();
    return renewer;
  }

  private void fromTask(Task task, ClusterEvent event) {
    emit(event);
    if (event instanceof ClusterEvent.Started) {
      news.add(new News.TaskStarted(task));
    }
  }

  private void emit(ClusterEvent event) {
    synchronized (telling) {
      if (listenerFailure == null) {
        try {
          listener.accept(event);
        } catch (RuntimeException | Error e) {
          listenerFailure = e;
          askToEnd(true);
        }
      }
    }
  }

  /**
   * The part of it in which programs run: decides, in one thread, what each piece of news means.
   */
  private final class Life {
    private final List<Task> tasks;
    private final Map<TaskName, TaskResult> results = new LinkedHashMap<>();
    // Those of whose start nothing is known yet.
    private final Set<Task> missing;
    private Outcome outcome;
    private String why = "";
    private Optional<TaskName> failed = Optional.empty();
    private OptionalLong startDeadline =
        OptionalLong.of(System.nanoTime() + request.startTimeout().toNanos());
    private OptionalLong evaluatorDeadline = OptionalLong.empty();

    Life(List<Task> tasks) {
      this.tasks = tasks;
      this.missing = new LinkedHashSet<>(tasks);
    }

    ClusterResult live() {
      while (results.size() < tasks.size()) {
        News next = next();
        if (next instanceof News.TaskStarted start) {
          hasStarted(start.task());
        } else if (next instanceof News.TaskEnded end) {
          taskEnded(end.task(), end.result());
        } else if (next instanceof News.StopAsked asked) {
          decide(Outcome.CANCELLED, "it was stopped from outside");
          stopAll(End.CANCELLED, asked.force());
        } else {
          timeOver();
        }
      }
      return new ClusterResult(
          request.name(),
          outcome,
          why,
          failed,
          tasks.stream().map(task -> results.get(task.name())).toList(),
          Duration.ofNanos(System.nanoTime() - start));
    }

    /** The next piece of news; null if a deadline came first. */
    private News next() {
      try {
        OptionalLong deadline = startDeadline.isPresent() ? startDeadline : evaluatorDeadline;
        return deadline.isEmpty()
            ? news.take()
            : news.poll(deadline.getAsLong() - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (InterruptedException e) {
        return new News.StopAsked(true);
      }
    }

    private void hasStarted(Task task) {
      if (missing.remove(task) && missing.isEmpty()) {
        startDeadline = OptionalLong.empty();
        emit(new ClusterEvent.AllStarted());
        started.complete(null);
      }
    }

    private void taskEnded(Task task, TaskResult result) {
      results.put(task.name(), result);
      emit(new ClusterEvent.Ended(result));
      if (outcome != null) {
        return;
      }
      if (!result.well() && !task.name().type().equals(TaskGroup.TENSORBOARD)) {
        failed = Optional.of(task.name());
        decide(
            result.end() == End.TIME_LIMIT ? Outcome.TIME_LIMIT : Outcome.FAILED,
            task.name() + " on " + task.server() + " " + said(result));
        emit(new ClusterEvent.Note("the others are stopped"));
        stopAll(End.CANCELLED, false);
      } else if (trainingIsOver()) {
        decide(Outcome.SUCCEEDED, "");
        startDeadline = OptionalLong.empty();
        tasks.stream()
            .filter(each -> group(each).background())
            .forEach(each -> stop(each, End.STOPPED, false));
        giveEvaluatorsTime();
      } else {
        // A TensorBoard may end without a start, and nobody waits for it then.
        hasStarted(task);
      }
    }

    private void giveEvaluatorsTime() {
      String evaluators =
          tasks.stream()
              .filter(task -> !group(task).background() && !results.containsKey(task.name()))
              .map(task -> task.name().toString())
              .collect(Collectors.joining(", "));
      if (!evaluators.isEmpty()) {
        // Else nobody would know why it does not end.
        emit(
            new ClusterEvent.Note(
                "the training is over; "
                    + evaluators
                    + " may go on for "
                    + request.evaluatorGrace().toSeconds()
                    + " s"));
        evaluatorDeadline = OptionalLong.of(System.nanoTime() + request.evaluatorGrace().toNanos());
      }
    }

    private boolean trainingIsOver() {
      return tasks.stream()
          .filter(task -> group(task).trains())
          .allMatch(task -> results.containsKey(task.name()));
    }

    private void timeOver() {
      if (startDeadline.isPresent()) {
        startDeadline = OptionalLong.empty();
        String late =
            missing.stream()
                .filter(task -> task.stage().compareTo(Task.Stage.RUNNING) < 0)
                .map(task -> task.name() + " on " + task.server() + " (" + task.progress() + ")")
                .collect(Collectors.joining(", "));
        // One may have started while a listener kept that from being told.
        if (!late.isEmpty()) {
          decide(
              Outcome.FAILED,
              "after " + request.startTimeout().toSeconds() + " s there is no " + late);
          emit(new ClusterEvent.Note(why + "; all are stopped"));
          stopAll(End.CANCELLED, false);
        }
      } else {
        evaluatorDeadline = OptionalLong.empty();
        stopAll(End.STOPPED, false);
      }
    }

    private void decide(Outcome decision, String because) {
      if (outcome == null) {
        outcome = decision;
        why = because;
      }
    }

    private void stopAll(End reason, boolean force) {
      startDeadline = OptionalLong.empty();
      tasks.forEach(task -> stop(task, reason, force));
    }

    // Each by a thread of its own: one server that does not answer must not delay the others.
    private void stop(Task task, End reason, boolean force) {
      if (results.containsKey(task.name())) {
        return;
      }
      threads.execute(
          () -> {
            try {
              task.stop(reason, force);
            } catch (BerthException e) {
              emit(new ClusterEvent.Note(task.name() + " cannot be stopped: " + e.getMessage()));
            } catch (InterruptedException e) {
              // The cluster has ended.
            }
          });
    }

    private TaskGroup group(Task task) {
      return request.group(task.name());
    }
  }

  private static String said(TaskResult result) {
    return switch (result.end()) {
      case FINISHED -> "ended with exit code " + result.exitCode().orElse(-1);
      case TIME_LIMIT -> "was ended because its time was over";
      case NOT_STARTED -> "could not be started: " + result.why();
      case OUT_OF_MEMORY -> "ran out of memory: " + result.why();
      case SERVER_LOST -> "is lost: " + result.why();
      case CANCELLED, STOPPED -> "was cancelled: " + result.why();
    };
  }
}
