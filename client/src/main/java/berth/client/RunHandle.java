package berth.client;

import berth.client.call.RunClient;
import berth.client.call.RunLines;
import berth.client.call.ThisUser;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelRunRequest;
import berth.v1.RunAccepted;
import berth.v1.RunEvent;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * A run that goes on by itself, over broken connections and restarts of its server. Any thread may
 * call. What the program prints is passed on by a thread of its own, line by line; what the
 * consumer of the lines throws ends the run, and becomes the failure of {@link #result}.
 */
public final class RunHandle implements AutoCloseable {
  private static final Duration ANSWER = Duration.ofSeconds(5);
  // A server gives a program ten seconds between SIGTERM and SIGKILL.
  private static final Duration ENDING = Duration.ofSeconds(20);

  /** Whether a run ends with its handle. */
  enum Kind {
    ATTACHED,
    DETACHED
  }

  /** Brings a run to a server, and follows it to its end. */
  interface Following {
    void follow(RunHandle run) throws IOException;
  }

  /** A call that passes the events of a run to {@link #events}. */
  interface Call {
    void make() throws IOException;
  }

  private record Place(Supplier<RunClient> client, Supplier<String> runId) {}

  private final CompletableFuture<RunResult> result = new CompletableFuture<>();
  private final InterruptibleCall worker = new InterruptibleCall();
  private final Kind kind;
  private final RunLines lines;
  private volatile Place place;
  private volatile boolean cancelled;
  private volatile RunAccepted accepted = RunAccepted.getDefaultInstance();
  private boolean started;
  private Throwable failure;

  RunHandle(Kind kind, Consumer<String> out, Consumer<String> err) {
    this.kind = kind;
    this.lines = new RunLines(out, err);
  }

  /**
   * The name of the run, by which {@code berth runs} and others know it; empty before a server has
   * taken it. It changes if that server drains while the run waits, and another takes it.
   */
  public Optional<String> runId() {
    return Optional.of(accepted.getRunId()).filter(id -> !id.isEmpty());
  }

  /** The name of the server that has taken the run; as {@link #runId}. */
  public Optional<String> server() {
    return Optional.of(accepted.getServer()).filter(name -> !name.isEmpty());
  }

  /**
   * How the program ended, however it did: its exit code is no failure. It fails with what {@link
   * Berth#run} throws. Cancelling it ends the run as {@link #cancel} does; of a detached run, only
   * the listening.
   */
  public CompletableFuture<RunResult> result() {
    return result;
  }

  /**
   * Ends the run: takes it out of the queue, or ends its program with SIGTERM and, ten seconds
   * later, SIGKILL. Returns as soon as its server has taken note; {@link #result} tells of the end.
   * What no server has accepted yet is given up: {@link #result} fails with CANCELLED, and a server
   * that accepts it in this moment ends it after ten seconds. Does nothing if the run has ended.
   */
  public void cancel() {
    cancelled = true;
    Place at = place;
    String id = at == null ? "" : at.runId.get();
    if (id.isEmpty()) {
      if (kind == Kind.ATTACHED) {
        // Nobody has it for certain: whoever is being asked hears that nobody wants it any more.
        worker.interrupt();
      }
      return;
    }
    try {
      cancel(at.client.get(), id);
    } catch (BerthException e) {
      // One that has ended says so itself.
      if (e.reason() != Reason.CONFLICT) {
        worker.interrupt();
      }
    }
  }

  /**
   * Ends the run as {@link #cancel} does, if it has not ended, and returns when it has. If its
   * server cannot be reached, the run ends there ten seconds after the connection broke. A detached
   * run goes on: only the listening ends.
   */
  @Override
  public void close() {
    if (kind == Kind.ATTACHED) {
      cancel();
      if (worker.await(ENDING)) {
        return;
      }
    }
    worker.end();
  }

  /** Does it all, in the calling thread. To be called once. */
  void carryOut(Following following, Executor threads) {
    result.whenComplete(
        (ended, why) -> {
          if (result.isCancelled()) {
            threads.execute(kind == Kind.ATTACHED ? this::cancel : worker::interrupt);
          }
        });
    worker.run(
        () -> {
          try {
            following.follow(this);
          } catch (IOException e) {
            failure = unsent(e);
          } catch (RuntimeException | Error e) {
            failure = e;
          }
        });
    if (failure == null && !started) {
      failure = RunResult.neverRan(lines.exited());
    }
    if (failure == null) {
      result.complete(RunResult.of(accepted, lines.exited(), lines.reserved()));
    } else {
      result.completeExceptionally(failure);
    }
  }

  /**
   * Makes the call that follows the run, and sees to it that the run ends if that does not: because
   * this thread is interrupted, or the consumer of the lines fails.
   *
   * @param client the server of the run, once that is known
   * @param runId its name there; empty before it was accepted
   */
  void attend(Supplier<RunClient> client, Supplier<String> runId, Call call) throws IOException {
    place = new Place(client, runId);
    try {
      if (cancelled) {
        cancel();
      }
      call.make();
    } catch (RuntimeException | IOException | Error e) {
      if (Thread.currentThread().isInterrupted() || !(e instanceof BerthException)) {
        leave();
      }
      throw e;
    } finally {
      place = null;
    }
  }

  private void leave() {
    String id = place.runId.get();
    if (kind == Kind.DETACHED || id.isEmpty()) {
      return;
    }
    boolean interrupted = Thread.interrupted();
    try {
      cancel(place.client.get(), id);
    } catch (BerthException e) {
      // It has ended, or does so soon: its server ends what nobody listens to.
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Cancels a run in the name of this user. */
  static void cancel(RunClient client, String id) {
    client.cancelRun(
        CancelRunRequest.newBuilder().setRunId(id).setBy(ThisUser.owner()).build(), ANSWER);
  }

  /** What to fail with if a file of the program cannot be read. */
  static BerthException unsent(IOException why) {
    return new BerthException(Reason.INVALID, "the program cannot be sent: " + why, why);
  }

  /** Takes the events of the run, in the thread that carries it out. */
  Consumer<RunEvent> events() {
    return event -> {
      if (event.hasAccepted()) {
        accepted = event.getAccepted();
      }
      started |= event.hasStarted();
      lines.accept(event);
    };
  }

  /** Another server is asked: the one that accepted the run does not have it any more. */
  void forget() {
    accepted = RunAccepted.getDefaultInstance();
  }
}
