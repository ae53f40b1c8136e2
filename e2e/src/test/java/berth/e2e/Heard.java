package berth.e2e;

import berth.rpc.BerthException;
import berth.v1.OutputStream;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * What one caller hears of a run, while it hears it. Fails the caller if a byte of output comes
 * twice, or is left out.
 */
final class Heard implements Consumer<RunEvent> {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final List<RunEvent> events = new ArrayList<>();
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();
  private final CompletableFuture<Void> end = new CompletableFuture<>();
  private final Thread thread;
  private long nextOffset;

  private Heard(long fromOffset, Consumer<Heard> call) {
    nextOffset = fromOffset;
    thread = new Thread(() -> listen(call), "heard");
    thread.setDaemon(true);
  }

  /** Makes a call in a thread of its own, which hands what it hears to this. */
  static Heard from(long offset, Consumer<Heard> call) {
    Heard heard = new Heard(offset, call);
    heard.thread.start();
    return heard;
  }

  private void listen(Consumer<Heard> call) {
    try {
      call.accept(this);
      end.complete(null);
    } catch (Throwable e) {
      end.completeExceptionally(e);
    }
    synchronized (this) {
      notifyAll();
    }
  }

  @Override
  public synchronized void accept(RunEvent event) {
    if (event.hasOutput()) {
      RunOutput output = event.getOutput();
      if (output.getOffset() != nextOffset) {
        throw new AssertionError("byte " + output.getOffset() + " came, not " + nextOffset);
      }
      nextOffset += output.getData().size();
      boolean toOut = output.getStream() == OutputStream.OUTPUT_STREAM_STDOUT;
      (toOut ? out : err).writeBytes(output.getData().toByteArray());
    } else {
      events.add(event);
    }
    notifyAll();
  }

  synchronized List<EventCase> kinds() {
    return events.stream().map(RunEvent::getEventCase).toList();
  }

  synchronized List<RunEvent> all(EventCase kind) {
    return events.stream().filter(event -> event.getEventCase() == kind).toList();
  }

  synchronized byte[] out() {
    return out.toByteArray();
  }

  synchronized byte[] err() {
    return err.toByteArray();
  }

  String outText() {
    return new String(out(), StandardCharsets.UTF_8);
  }

  String errText() {
    return new String(err(), StandardCharsets.UTF_8);
  }

  /** Waits for the run's name. */
  String runId() {
    return await(EventCase.ACCEPTED).getAccepted().getRunId();
  }

  /** Waits for the first event of a kind. */
  RunEvent await(EventCase kind) {
    return await(event -> event.getEventCase() == kind, "no " + kind);
  }

  RunEvent await(Predicate<RunEvent> wanted, String otherwise) {
    return await(() -> events.stream().filter(wanted).findFirst(), otherwise);
  }

  /** Waits for as many bytes of output, both streams together. */
  void awaitOutput(long bytes) {
    await(
        () -> out.size() + err.size() >= bytes ? Optional.of(true) : Optional.empty(),
        "no " + bytes + " bytes of output");
  }

  private interface Question<T> {
    Optional<T> ask();
  }

  private synchronized <T> T await(Question<T> question, String otherwise) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    try {
      while (true) {
        Optional<T> answer = question.ask();
        if (answer.isPresent()) {
          return answer.get();
        }
        long left = deadline - System.nanoTime();
        if (left <= 0 || end.isDone()) {
          throw new AssertionError(otherwise + " came; " + this, failure().orElse(null));
        }
        TimeUnit.NANOSECONDS.timedWait(this, left);
      }
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Waits for the end of the call, and returns how the run ended. */
  RunExited exited() {
    join()
        .ifPresent(
            failure -> {
              throw new AssertionError("the call failed; " + this, failure);
            });
    return all(EventCase.EXITED).get(0).getExited();
  }

  /** Waits for the end of the call, which must be a failure, and returns it. */
  BerthException failed() {
    Throwable failure =
        join().orElseThrow(() -> new AssertionError("the call did not fail; " + this));
    if (failure instanceof BerthException expected) {
      return expected;
    }
    throw new AssertionError(failure);
  }

  /** Goes away without a word, as a client does that is killed. */
  void vanish() {
    thread.interrupt();
    join();
  }

  /** Waits until there is no more to hear, however it ended. */
  void ended() {
    join();
  }

  private Optional<Throwable> join() {
    try {
      end.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
      return Optional.empty();
    } catch (ExecutionException e) {
      return Optional.of(e.getCause());
    } catch (InterruptedException | TimeoutException e) {
      throw new AssertionError("the call did not end; " + this, e);
    }
  }

  private Optional<Throwable> failure() {
    return end.isCompletedExceptionally() ? join() : Optional.empty();
  }

  @Override
  public synchronized String toString() {
    return "heard: " + events + ", stdout " + end(out) + ", stderr " + end(err);
  }

  private static String end(ByteArrayOutputStream stream) {
    String text = stream.toString(StandardCharsets.UTF_8);
    return stream.size() + " bytes ..." + text.substring(Math.max(0, text.length() - 300));
  }
}
