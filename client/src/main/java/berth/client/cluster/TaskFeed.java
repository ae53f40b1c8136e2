package berth.client.cluster;

import berth.client.call.FollowedRun;
import berth.client.call.RunClient;
import berth.client.cluster.ClusterChanges.Change;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.OutputStream;
import berth.v1.RunEvent;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Tells of one task of a watched cluster, everything in its order: the end of an attempt after all
 * that it printed, the next attempt after that. What has to wait is told by the thread that calls
 * {@link #run}; others may call the rest.
 */
final class TaskFeed implements Runnable {
  /** How far to read what an attempt prints. */
  enum Reading {
    /** What is there. */
    SO_FAR,
    /** All of it, also while it comes. */
    TO_THE_END,
    /** The same, without what is there already. */
    FROM_NOW_ON
  }

  private record Step(Change change, Reading reading) {}

  private static final Step LAST = new Step(null, null);

  private static final Duration TIMEOUT = Duration.ofSeconds(10);
  private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);
  private static final Set<Reason> MAY_COME_BACK = Set.of(Reason.UNAVAILABLE, Reason.TIMED_OUT);

  // A supervisor that calls a server lost has tried for long, but may be the only one who cannot
  // reach it.
  private static final Duration PATIENCE_WITH_THE_LOST = Duration.ofSeconds(3);

  private final TaskName task;
  private final Function<TaskAttempt, RunClient> servers;
  private final Consumer<ClusterEvent> listener;
  private final LinkedBlockingQueue<Step> steps = new LinkedBlockingQueue<>();

  private volatile boolean closed;
  private int pending;
  // Numbers of attempts: the one that is read, if any, and the newest that started and ended.
  private int read;
  private int startedTold;
  private int ended;
  private final Set<Integer> lost = new HashSet<>();
  private Thread reader;
  private volatile long heard;
  private volatile boolean telling;

  /**
   * @param servers the connection to the server of an attempt
   * @param listener what it throws ends this
   */
  TaskFeed(
      TaskName task, Function<TaskAttempt, RunClient> servers, Consumer<ClusterEvent> listener) {
    this.task = task;
    this.servers = servers;
    this.listener = listener;
  }

  /**
   * Adds what happened next. Tells it at once, in the calling thread, if nothing else comes before.
   * For one thread.
   *
   * @param reading if it is a run: how far
   */
  void add(Change change, Reading reading) {
    if (change instanceof Change.OfTask step) {
      takeNote(step);
      if (nothingComesBefore(step)) {
        tell(step);
        return;
      }
    }
    synchronized (this) {
      pending++;
    }
    steps.add(new Step(change, reading));
  }

  private synchronized void takeNote(Change.OfTask step) {
    int number = step.attempt().getNumber();
    // The end of one may never be told, if too many others followed.
    ended = Math.max(ended, step.event() instanceof ClusterEvent.Ended ? number : number - 1);
    if (step.attempt().getEnd() == TaskEnd.TASK_END_SERVER_LOST && lost.add(number)) {
      leaveSoonIfLost();
    }
    notifyAll();
  }

  // The start of an attempt comes before what it prints.
  private synchronized boolean nothingComesBefore(Change.OfTask step) {
    return pending == 0
        || step.event() instanceof ClusterEvent.Started && read == step.attempt().getNumber();
  }

  /** Says that nothing more will be added, because all attempts have ended. */
  synchronized void end() {
    ended = Integer.MAX_VALUE;
    notifyAll();
    steps.add(LAST);
  }

  /** Ends it at once. The thread has to be interrupted too. */
  void close() {
    closed = true;
  }

  @Override
  public void run() {
    try {
      while (!closed) {
        Step step = steps.take();
        if (step == LAST) {
          return;
        }
        if (step.change instanceof Change.Accepted accepted) {
          read(accepted.attempt(), step.reading);
        } else if (step.change instanceof Change.OfTask told) {
          tell(told);
        }
        synchronized (this) {
          pending--;
        }
      }
    } catch (InterruptedException e) {
      // Nobody watches any more.
    }
  }

  private void tell(Change.OfTask step) {
    if (step.event() instanceof ClusterEvent.Started started) {
      tellStarted(step.attempt(), started);
    } else {
      listener.accept(step.event());
    }
  }

  // Its supervisor and its run both tell of it, in any order, and before anything that it prints.
  private synchronized void tellStarted(TaskAttempt attempt, ClusterEvent.Started started) {
    if (startedTold < attempt.getNumber()) {
      startedTold = attempt.getNumber();
      listener.accept(started);
    }
  }

  private void leaveSoonIfLost() {
    if (lost.contains(read)) {
      int number = read;
      long events = heard;
      CompletableFuture.delayedExecutor(PATIENCE_WITH_THE_LOST.toNanos(), TimeUnit.NANOSECONDS)
          .execute(() -> leave(number, events));
    }
  }

  private synchronized void leave(int number, long before) {
    if (read != number) {
      return;
    }
    if (heard == before && !telling) {
      reader.interrupt();
    } else {
      // Something still comes.
      leaveSoonIfLost();
    }
  }

  private void read(TaskAttempt attempt, Reading reading) {
    synchronized (this) {
      read = attempt.getNumber();
      reader = Thread.currentThread();
      leaveSoonIfLost();
    }
    try {
      readOverFailures(new Output(attempt, reading), attempt, reading);
    } finally {
      synchronized (this) {
        read = 0;
        // What comes next is not meant. Whoever closed this has said so before the interrupt.
        Thread.interrupted();
      }
    }
  }

  private void readOverFailures(Output output, TaskAttempt attempt, Reading reading) {
    Duration pause = FIRST_PAUSE;
    boolean told = false;
    while (true) {
      // The end was known before this try: there is nothing to wait for.
      boolean last = reading == Reading.SO_FAR || knownToHaveEnded(attempt);
      try {
        output.read();
        return;
      } catch (BerthException e) {
        if (closed) {
          return;
        }
        if (last || !MAY_COME_BACK.contains(e.reason())) {
          note(output.unreadable(e));
          return;
        }
        if (!told) {
          note(output.unreadable(e) + "; trying again");
          told = true;
        }
      }
      awaitEnd(attempt, pause);
      Duration twice = pause.multipliedBy(2);
      pause = twice.compareTo(LONGEST_PAUSE) < 0 ? twice : LONGEST_PAUSE;
    }
  }

  private synchronized boolean knownToHaveEnded(TaskAttempt attempt) {
    return ended >= attempt.getNumber();
  }

  private synchronized void awaitEnd(TaskAttempt attempt, Duration atMost) {
    try {
      if (ended < attempt.getNumber()) {
        TimeUnit.NANOSECONDS.timedWait(this, atMost.toNanos());
      }
    } catch (InterruptedException e) {
      // The next try notices.
      Thread.currentThread().interrupt();
    }
  }

  private void note(String text) {
    listener.accept(new ClusterEvent.Note(text));
  }

  /** What one attempt prints, from where the last try to read it ended. */
  private final class Output {
    private final TaskAttempt attempt;
    private final Reading reading;
    private boolean placeKnown;
    private long next;

    Output(TaskAttempt attempt, Reading reading) {
      this.attempt = attempt;
      this.reading = reading;
      this.placeKnown = reading != Reading.FROM_NOW_ON;
    }

    void read() {
      RunClient server = servers.apply(attempt);
      if (!placeKnown) {
        next = server.getRun(attempt.getRunId(), TIMEOUT).getOutputBytes();
        placeKnown = true;
      }
      new FollowedRun(server, this::take)
          .attach(
              AttachRunRequest.newBuilder()
                  .setRunId(attempt.getRunId())
                  .setFromOffset(next)
                  .setNoFollow(reading == Reading.SO_FAR)
                  .build());
    }

    private void take(RunEvent event) {
      telling = true;
      tell(event);
      heard++;
      telling = false;
    }

    private void tell(RunEvent event) {
      switch (event.getEventCase()) {
        case PULLING ->
            listener.accept(
                new ClusterEvent.Pulling(
                    task, event.getPulling().getImage(), event.getPulling().getPercent()));
        case STARTED -> tellStarted(attempt, ClusterChanges.started(task, attempt));
        case OUTPUT -> {
          next = event.getOutput().getOffset() + event.getOutput().getData().size();
          listener.accept(
              new ClusterEvent.Output(
                  task,
                  event.getOutput().getStream() == OutputStream.OUTPUT_STREAM_STDERR,
                  event.getOutput().getData().toByteArray()));
        }
        case TRUNCATED ->
            note("the output of " + task + " is longer than " + attempt.getServer() + " keeps");
        case ACCEPTED, QUEUED, RESERVED, EXITED, EVENT_NOT_SET -> {}
      }
    }

    String unreadable(BerthException why) {
      return "the output of "
          + task
          + " (attempt "
          + attempt.getNumber()
          + ", "
          + attempt.getRunId()
          + " on "
          + attempt.getServer()
          + ") cannot be read"
          + (next == 0 ? "" : " any further")
          + ": "
          + (why.reason() == Reason.CANCELLED ? "its server is lost" : why.getMessage());
    }
  }
}
