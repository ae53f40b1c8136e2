package berth.client.cluster;

import berth.client.call.RegistryClient;
import berth.client.call.RunRequests;
import berth.client.cluster.ClusterAttempt.News;
import berth.client.cluster.ClusterAttempt.Verdict;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.spec.GpuServer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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

/**
 * A cluster from its request to its end. It lives in threads of its own; any thread may call.
 *
 * <p>It ends with this process: whatever happens to that, its programs are stopped and everything
 * that it holds is free within half a minute. Only one that a server supervises goes on, if
 * somebody goes on with its ledger within that time.
 */
public final class Cluster implements AutoCloseable {
  private static final Duration RENEWAL = GangReservation.LEASE.dividedBy(5);
  private static final Duration REGISTRY_AWAY = Duration.ofSeconds(2);

  private final ClusterRequest request;
  private final RegistryClient registry;
  private final Ledger ledger;
  private final Consumer<ClusterEvent> listener;
  private final ExecutorService threads;
  private final Thread leader;
  private final Instant begun;
  private final LinkedBlockingQueue<News> news = new LinkedBlockingQueue<>();
  private final CompletableFuture<ClusterSpec> formed = new CompletableFuture<>();
  private final CompletableFuture<Void> started = new CompletableFuture<>();
  private final CompletableFuture<ClusterResult> ended = new CompletableFuture<>();
  private boolean forming;
  private boolean stopAsked;
  private final Object telling = new Object();
  private volatile Throwable listenerFailure;

  private Cluster(
      RegistryClient registry,
      ClusterRequest request,
      Ledger ledger,
      Consumer<ClusterEvent> listener) {
    this.registry = registry;
    this.request = request;
    this.ledger = ledger;
    ClusterStatus known = ledger.status();
    this.begun = known.hasSubmittedAt() ? Messages.instant(known.getSubmittedAt()) : Instant.now();
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
    return start(registry, request, Ledger.inMemory(), listener);
  }

  /** Begins to form a cluster, or goes on with it as the ledger says. */
  static Cluster start(
      RegistryClient registry,
      ClusterRequest request,
      Ledger ledger,
      Consumer<ClusterEvent> listener) {
    Cluster cluster = new Cluster(registry, request, ledger, listener);
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
    stopAsked = true;
    if (forming) {
      leader.interrupt();
    }
  }

  private synchronized void formingBegins() {
    forming = true;
    if (stopAsked) {
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
      ledger.begin(request);
      ClusterResult result = carryOut(hosts);
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

  /** From one formation to the next, until it is over. */
  private ClusterResult carryOut(Hosts hosts) {
    Verdict.Over over = null;
    int quickEnds = 0;
    Set<String> avoided = Set.of();
    while (over == null) {
      Verdict verdict;
      long beginning = System.nanoTime();
      try {
        GangReservation gang = ledger.formed() ? restore(hosts) : form(hosts, quickEnds, avoided);
        beginning = System.nanoTime();
        verdict = live(gang);
        if (verdict instanceof Verdict.Again) {
          awaitGone(gang);
        }
      } catch (BerthException e) {
        verdict = notFormed(e);
      }
      if (verdict instanceof Verdict.Again again) {
        boolean ranLong = ClusterPolicy.ranLong(Duration.ofNanos(System.nanoTime() - beginning));
        quickEnds = again.resubmission() ? 0 : ranLong ? 1 : quickEnds + 1;
        avoided = again.avoided();
        // What it held is given back: one who goes on with the ledger must not look for it.
        ledger.waiting(again.why());
      } else {
        over = (Verdict.Over) verdict;
      }
    }
    if (request.policy().cleaning() == Cleaning.ALL) {
      removeRuns(hosts);
    }
    ledger.over();
    return result(over);
  }

  // One that never was formed has nothing to show but why.
  private Verdict notFormed(BerthException e) {
    Verdict.Over over =
        new Verdict.Over(
            e.reason() == Reason.CANCELLED ? Outcome.CANCELLED : Outcome.FAILED,
            e.reason() == Reason.CANCELLED ? "it was cancelled from outside" : e.getMessage(),
            Optional.empty());
    ledger.decided(over, List.of(), false);
    if (ledger.status().getFormation() == 0) {
      ledger.over();
      formed.completeExceptionally(e);
      throw e;
    }
    return over;
  }

  private ClusterResult result(Verdict.Over over) {
    return new ClusterResult(
        request.name(),
        over.outcome(),
        over.why(),
        over.failed(),
        request.tasks().stream().flatMap(task -> ledger.result(task).stream()).toList(),
        Duration.between(begun, Instant.now()));
  }

  private GangReservation restore(Hosts hosts) {
    return GangReservation.restore(request, ledger, hosts, threads);
  }

  // No task may run twice, so what may still run somewhere must have ended first.
  private void awaitGone(GangReservation gang) {
    waiting(
        () -> {
          gang.awaitGone(request.stopGrace());
          return null;
        });
  }

  private GangReservation form(Hosts hosts, int quickEnds, Set<String> avoided) {
    GangReservation gang =
        waiting(
            () -> {
              if (quickEnds > 0) {
                TimeUnit.NANOSECONDS.sleep(request.policy().pause(quickEnds).toNanos());
              }
              return form(hosts, avoided);
            });
    ledger.formed(gang, request.timeLimit());
    return gang;
  }

  private GangReservation form(Hosts hosts, Set<String> avoided) throws InterruptedException {
    // One that is supervised was possible when it was handed over.
    boolean wasPossible = ledger.supervised() || ledger.status().getFormation() > 0;
    while (true) {
      try {
        return new Forming(
                registry,
                request,
                ledger.owner(),
                wasPossible,
                avoided,
                hosts,
                threads,
                this::tellWaiting)
            .form();
      } catch (BerthException e) {
        // Nobody is there who could try again later, or it is a training of days.
        if (!wasPossible || e.reason() != Reason.UNAVAILABLE) {
          throw e;
        }
        tellWaiting(e.getMessage());
        TimeUnit.NANOSECONDS.sleep(REGISTRY_AWAY.toNanos());
      }
    }
  }

  private void tellWaiting(String why) {
    ledger.waiting(why);
    emit(new ClusterEvent.Waiting(why));
  }

  private interface Wait<T> {
    T end() throws InterruptedException;
  }

  /** Does something that a request to end interrupts. */
  private <T> T waiting(Wait<T> wait) {
    try {
      formingBegins();
      return wait.end();
    } catch (InterruptedException e) {
      throw new BerthException(Reason.CANCELLED, "interrupted before it was formed again", e);
    } finally {
      formingIsOver();
    }
  }

  private Verdict live(GangReservation gang) {
    Map<String, RunRequests> requests = new HashMap<>();
    Thread renewer = renewing(gang);
    try {
      ClusterSpec spec = gang.spec();
      emit(new ClusterEvent.Formed(gang.plan(), spec));
      formed.complete(spec);
      request.groups().forEach(group -> requests.put(group.type(), new RunRequests(group.run())));
      return new ClusterAttempt(request, gang, ledger, requests, threads, news, this::emit).live();
    } finally {
      renewer.interrupt();
      gang.release(
          (task, why) ->
              emit(
                  new ClusterEvent.Note(
                      "what "
                          + task
                          + " held could not be released, and ends by itself within "
                          + GangReservation.LEASE.toSeconds()
                          + " s: "
                          + why.getMessage())));
      requests.values().forEach(RunRequests::close);
    }
  }

  private Thread renewing(GangReservation gang) {
    Thread renewer =
        new Thread(
            () -> {
              try {
                while (true) {
                  gang.renew();
                  ledger.catchUp();
                  TimeUnit.NANOSECONDS.sleep(RENEWAL.toNanos());
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

  /** Deletes what tasks printed and left, as far as their servers are there. */
  private void removeRuns(Hosts hosts) {
    for (TaskStatus task : ledger.status().getTasksList()) {
      for (TaskAttempt attempt : task.getAttemptsList()) {
        if (!attempt.getRunId().isEmpty()) {
          removeRun(hosts, attempt);
        }
      }
    }
  }

  private void removeRun(Hosts hosts, TaskAttempt attempt) {
    GpuServer server =
        GpuServer.unseen(attempt.getServer(), Address.parse(attempt.getServerAddress(), 0));
    try {
      hosts.of(server).remove(attempt.getRunId());
    } catch (BerthException e) {
      if (e.reason() != Reason.NOT_FOUND) {
        emit(
            new ClusterEvent.Note(
                "what is left of "
                    + attempt.getRunId()
                    + " stays on "
                    + server.name()
                    + ": "
                    + e.getMessage()));
      }
    }
  }

  private void emit(ClusterEvent event) {
    if (event instanceof ClusterEvent.Note note) {
      ledger.note(note.text());
    }
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
    if (event instanceof ClusterEvent.AllStarted) {
      started.complete(null);
    }
  }
}
