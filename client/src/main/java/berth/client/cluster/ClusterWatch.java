package berth.client.cluster;

import berth.client.call.ClusterClient;
import berth.client.call.FollowedCluster;
import berth.client.call.RunClient;
import berth.client.call.ServerConnection;
import berth.client.cluster.ClusterChanges.Change;
import berth.client.cluster.TaskFeed.Reading;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * Looks at a cluster that a server supervises: tells what happens to it, which that server knows,
 * and what its tasks print, which stays with their runs on other servers. The cluster does not
 * notice.
 *
 * <p>To be used once. The listener is told by threads of this object, never by two at a time; while
 * it does not return, output waits. What it throws ends the watching, and is thrown to the one who
 * called. Of each task everything is told in its order: that an attempt ended comes after all that
 * it printed.
 */
public final class ClusterWatch implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  // Those who follow a task wait most of the time; those who read what is there do not.
  private static final int READ_AT_ONCE = 16;

  private final ClusterClient supervisor;
  private final String clusterId;
  private final Function<Address, ServerConnection> connect;
  private final Consumer<ClusterEvent> listener;

  private final ThreadFactory factory;
  private final ExecutorService threads;
  private final Map<Address, ServerConnection> connections = new ConcurrentHashMap<>();
  private final Map<TaskName, TaskFeed> feeds = new ConcurrentHashMap<>();
  private final CompletableFuture<ClusterStatus> over = new CompletableFuture<>();
  private final Object telling = new Object();

  /**
   * @param supervisor the server that supervises the cluster
   * @param connect makes a connection to the server of a task, at most one to each; this object
   *     closes it
   */
  public ClusterWatch(
      ClusterClient supervisor,
      String clusterId,
      Function<Address, ServerConnection> connect,
      Consumer<ClusterEvent> listener) {
    this.supervisor = supervisor;
    this.clusterId = clusterId;
    this.connect = connect;
    this.listener = listener;
    this.factory =
        task -> {
          Thread thread = new Thread(task, "watch-" + clusterId);
          thread.setDaemon(true);
          return thread;
        };
    this.threads = Executors.newCachedThreadPool(factory);
  }

  /**
   * Tells how the cluster is, and what happens and is printed from now on, until it has ended.
   *
   * @return how it was then
   * @throws BerthException if there is no such cluster, its supervising server is lost for longer
   *     than 90 seconds, or this thread is interrupted
   */
  public ClusterStatus attach() {
    return carryOut(() -> watch(Reading.FROM_NOW_ON, task -> true));
  }

  /**
   * Tells what some tasks have printed from the beginning and print until the cluster has ended,
   * and what becomes of their attempts. Notes are only about what cannot be read.
   *
   * @return how it was then
   * @throws BerthException as {@link #attach}
   */
  public ClusterStatus follow(Predicate<TaskName> tasks) {
    return carryOut(() -> watch(Reading.TO_THE_END, tasks));
  }

  /**
   * The same with what was printed so far.
   *
   * @return how it was then
   * @throws BerthException if there is no such cluster, its supervising server does not answer, or
   *     this thread is interrupted
   */
  public ClusterStatus read(Predicate<TaskName> tasks) {
    return carryOut(() -> readAll(tasks));
  }

  /** Ends it, wherever it is; the cluster goes on. */
  @Override
  public void close() {
    over.completeExceptionally(new BerthException(Reason.CANCELLED, "the watch has ended"));
    feeds.values().forEach(TaskFeed::close);
    threads.shutdownNow();
    connections.values().forEach(ServerConnection::close);
  }

  private ClusterStatus carryOut(Supplier<ClusterStatus> work) {
    start(threads, () -> over.complete(work.get()));
    try {
      return over.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while watching a cluster", e);
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

  /** Does something in another thread. What fails there fails all. */
  private CompletableFuture<Void> start(Executor executor, Runnable work) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    executor.execute(
        () -> {
          try {
            work.run();
          } catch (RuntimeException | Error e) {
            over.completeExceptionally(e);
          } finally {
            done.complete(null);
          }
        });
    return done;
  }

  private ClusterStatus readAll(Predicate<TaskName> tasks) {
    ClusterStatus status = supervisor.get(clusterId, TIMEOUT);
    for (Change change : ClusterChanges.between(ClusterStatus.getDefaultInstance(), status)) {
      task(change)
          .filter(tasks)
          .ifPresent(task -> feeds.computeIfAbsent(task, this::feed).add(change, Reading.SO_FAR));
    }
    ExecutorService some = Executors.newFixedThreadPool(READ_AT_ONCE, factory);
    try {
      feeds.values().forEach(TaskFeed::end);
      await(feeds.values().stream().map(feed -> start(some, feed)).toList());
      return status;
    } finally {
      some.shutdownNow();
    }
  }

  private ClusterStatus watch(Reading reading, Predicate<TaskName> tasks) {
    Following following = new Following(reading, tasks);
    ClusterStatus last = new FollowedCluster(supervisor, following).follow(clusterId);
    feeds.values().forEach(TaskFeed::end);
    await(following.running);
    return last;
  }

  private static void await(List<CompletableFuture<Void>> running) {
    try {
      CompletableFuture.allOf(running.toArray(CompletableFuture[]::new)).get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "the watch has ended", e);
    } catch (ExecutionException e) {
      throw new IllegalStateException("none of them fails", e);
    }
  }

  /** Makes events of states, in the thread that gets these. */
  private final class Following implements FollowedCluster.Watcher {
    private final Reading reading;
    private final Predicate<TaskName> tasks;
    private final List<CompletableFuture<Void>> running = new ArrayList<>();
    private ClusterStatus before = ClusterStatus.getDefaultInstance();
    private boolean first = true;
    private boolean lost;

    /**
     * @param reading where to begin; also, whether to tell of all of the cluster
     */
    Following(Reading reading, Predicate<TaskName> tasks) {
      this.reading = reading;
      this.tasks = tasks;
    }

    @Override
    public void changed(ClusterStatus status) {
      if (lost) {
        lost = false;
        note(status.getServer() + " is back");
      }
      boolean now = first && reading == Reading.FROM_NOW_ON;
      List<Change> changes =
          now ? ClusterChanges.now(status) : ClusterChanges.between(before, status);
      changes.forEach(change -> pass(change, now ? reading : Reading.TO_THE_END));
      before = status;
      first = false;
    }

    @Override
    public void lost(BerthException why) {
      lost = true;
      note(why.getMessage() + "; trying again");
    }

    private void pass(Change change, Reading how) {
      if (change instanceof Change.OfCluster all) {
        if (reading == Reading.FROM_NOW_ON) {
          tell(all.event());
        }
      } else {
        task(change).filter(tasks).ifPresent(task -> begun(task).add(change, how));
      }
    }

    private TaskFeed begun(TaskName task) {
      return feeds.computeIfAbsent(
          task,
          name -> {
            TaskFeed feed = feed(name);
            running.add(start(threads, feed));
            return feed;
          });
    }
  }

  private static Optional<TaskName> task(Change change) {
    if (change instanceof Change.OfTask step) {
      return Optional.of(step.task());
    }
    return change instanceof Change.Accepted run ? Optional.of(run.task()) : Optional.empty();
  }

  private TaskFeed feed(TaskName task) {
    return new TaskFeed(task, this::server, this::tell);
  }

  private RunClient server(TaskAttempt attempt) {
    ServerConnection connection =
        connections.computeIfAbsent(Address.parse(attempt.getServerAddress(), 0), connect);
    if (over.isDone()) {
      // It may have come too late to be closed with the others.
      connection.close();
    }
    return connection.runs();
  }

  private void note(String text) {
    tell(new ClusterEvent.Note(text));
  }

  private void tell(ClusterEvent event) {
    synchronized (telling) {
      if (over.isDone()) {
        return;
      }
      try {
        listener.accept(event);
      } catch (RuntimeException | Error e) {
        over.completeExceptionally(e);
      }
    }
  }
}
