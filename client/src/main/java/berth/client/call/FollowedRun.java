package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.OutputStream;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunOutput;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Follows one run to its end, over broken connections and restarts of its server: every byte of
 * output reaches the consumer exactly once and in order, and so does every event that happens once.
 *
 * <p>To be used once, by one thread, in which the consumer is called too; an interrupt ends it.
 */
public final class FollowedRun {
  /**
   * How to come back to a server that is gone.
   *
   * @param firstPause before the first attempt; each further pause is twice as long
   * @param longestPause where the pauses stop growing
   * @param giveUpAfter how long no attempt may succeed
   */
  record Patience(Duration firstPause, Duration longestPause, Duration giveUpAfter) {}

  private static final Patience PATIENCE =
      new Patience(Duration.ofMillis(100), Duration.ofSeconds(2), Duration.ofSeconds(30));

  private final RunClient client;
  private final Consumer<RunEvent> consumer;
  private final Patience patience;

  private RunEvent.EventCase last = RunEvent.EventCase.EXITED;
  private volatile String runId = "";
  private long nextOffset;
  private RunEvent lastQueued = RunEvent.getDefaultInstance();
  private final Set<RunEvent.EventCase> told = EnumSet.noneOf(RunEvent.EventCase.class);
  private final Set<OutputStream> truncated = EnumSet.noneOf(OutputStream.class);
  private boolean heardSomething;

  public FollowedRun(RunClient client, Consumer<RunEvent> consumer) {
    this(client, consumer, PATIENCE);
  }

  FollowedRun(RunClient client, Consumer<RunEvent> consumer, Patience patience) {
    this.client = client;
    this.consumer = consumer;
    this.patience = patience;
  }

  /** The run's name; empty before it was accepted. Any thread may ask. */
  public String runId() {
    return runId;
  }

  /**
   * Runs code, and returns when it has ended; with {@code detached} as soon as it is accepted.
   *
   * @throws BerthException if it could not be started, or if the server was lost and did not come
   *     back within half a minute. Before {@code accepted} nothing is tried twice.
   */
  public void run(RunCodeRequest request) {
    last = request.getDetached() ? RunEvent.EventCase.ACCEPTED : RunEvent.EventCase.EXITED;
    follow(
        () -> client.runCode(request, this::pass),
        AttachRunRequest.newBuilder().setHolding(true).build());
  }

  /**
   * Follows a run that exists from the offset that {@code request} says, and returns when it has
   * ended; with {@code no_follow} when all output so far was passed on.
   *
   * @throws BerthException as {@link #run}, and if there is no such run
   */
  public void attach(AttachRunRequest request) {
    runId = request.getRunId();
    nextOffset = request.getFromOffset();
    follow(() -> client.attachRun(request, this::pass), request);
  }

  private void follow(Runnable call, AttachRunRequest further) {
    boolean mayEndEarly = further.getNoFollow();
    BerthException broken = attempt(call, mayEndEarly);
    long brokenSince = System.nanoTime();
    Duration pause = patience.firstPause;
    while (broken != null) {
      if (!told.contains(RunEvent.EventCase.ACCEPTED)) {
        throw broken;
      }
      if (System.nanoTime() - brokenSince > patience.giveUpAfter.toNanos()) {
        throw new BerthException(
            broken.reason(),
            broken.getMessage()
                + "; gave up on "
                + runId
                + " after "
                + patience.giveUpAfter.toSeconds()
                + " s",
            broken);
      }
      sleep(pause);
      pause = min(pause.multipliedBy(2), patience.longestPause);
      heardSomething = false;
      AttachRunRequest again =
          further.toBuilder().setRunId(runId).setFromOffset(nextOffset).build();
      client.connectNow();
      BerthException before = broken;
      try {
        broken = attempt(() -> client.attachRun(again, this::pass), mayEndEarly);
      } catch (BerthException e) {
        // What ended the stream in the first place says more than that the run is gone since.
        throw e.reason() == Reason.NOT_FOUND
            ? new BerthException(
                before.reason(), before.getMessage() + " (then: " + e.getMessage() + ")", e)
            : e;
      }
      if (heardSomething) {
        brokenSince = System.nanoTime();
        pause = patience.firstPause;
      }
    }
  }

  /** Returns null if the stream came to its end, else what broke it. */
  private BerthException attempt(Runnable call, boolean mayEndEarly) {
    try {
      call.run();
    } catch (BerthException e) {
      // A connection may also break after all was said.
      if (told.contains(last)) {
        return null;
      }
      if (e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      return e;
    }
    return mayEndEarly || told.contains(last)
        ? null
        : new BerthException(Reason.UNAVAILABLE, "the server ended the stream before the run did");
  }

  private void pass(RunEvent event) {
    heardSomething = true;
    switch (event.getEventCase()) {
      case ACCEPTED -> {
        runId = event.getAccepted().getRunId();
        passOnce(event);
      }
      case QUEUED -> {
        if (!event.equals(lastQueued) && !told.contains(RunEvent.EventCase.STARTED)) {
          lastQueued = event;
          consumer.accept(event);
        }
      }
      case PULLING -> {
        if (!told.contains(RunEvent.EventCase.STARTED)) {
          consumer.accept(event);
        }
      }
      case OUTPUT -> passOutput(event.getOutput());
      case TRUNCATED -> {
        if (truncated.add(event.getTruncated().getStream())) {
          consumer.accept(event);
        }
      }
      case RESERVED, STARTED, EXITED -> passOnce(event);
      case EVENT_NOT_SET -> {
        // Something that a newer server has to tell.
      }
    }
  }

  private void passOnce(RunEvent event) {
    if (told.add(event.getEventCase())) {
      consumer.accept(event);
    }
  }

  private void passOutput(RunOutput output) {
    long known = nextOffset - output.getOffset();
    int length = output.getData().size();
    if (known < 0) {
      throw new BerthException(
          Reason.INTERNAL,
          "the server left out the output of "
              + runId
              + " from byte "
              + nextOffset
              + " to "
              + output.getOffset());
    }
    if (known >= length) {
      return;
    }
    nextOffset += length - known;
    consumer.accept(
        RunEvent.newBuilder()
            .setOutput(
                known == 0
                    ? output
                    : output.toBuilder()
                        .setOffset(output.getOffset() + known)
                        .setData(output.getData().substring((int) known))
                        .build())
            .build());
  }

  private static void sleep(Duration pause) {
    try {
      TimeUnit.NANOSECONDS.sleep(pause.toNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while following a run", e);
    }
  }

  private static Duration min(Duration a, Duration b) {
    return a.compareTo(b) < 0 ? a : b;
  }
}
