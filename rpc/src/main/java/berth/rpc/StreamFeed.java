package berth.rpc;

import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.Executor;

/**
 * Sends one caller what a source has, no faster than the caller reads. Nothing is queued: the
 * source keeps its place, and is asked for the next message only when the caller has room for it.
 *
 * <p>{@link #wake} may be called from any thread, also after the end, and never blocks. The
 * constructor must run inside the service method, because gRPC accepts handlers only there.
 */
public final class StreamFeed<T> {
  // One caller who reads fast must not keep a thread from the others for ever.
  private static final int MESSAGES_A_TURN = 64;

  /** What is sent. Asked by one thread at a time. */
  public interface Source<T> {
    /**
     * The next message; null if there is none at present. A failure ends the call with its status.
     */
    T next();

    /** Whether nothing follows what {@link #next} returned. */
    boolean ended();
  }

  private final ServerCallStreamObserver<T> observer;
  private final Source<T> source;
  private final Executor executor;
  private Runnable onEnd = () -> {};
  private boolean running;
  private boolean again;
  private boolean ended;

  /**
   * @param observer the observer that gRPC handed to the service method
   * @param executor where the source is asked
   */
  public StreamFeed(StreamObserver<T> observer, Source<T> source, Executor executor) {
    this.observer = (ServerCallStreamObserver<T>) observer;
    this.source = source;
    this.executor = executor;
    this.observer.setOnReadyHandler(this::wake);
    this.observer.setOnCancelHandler(() -> end(() -> {}));
  }

  /**
   * Runs {@code action} once when the call is over for whatever reason; at once if it is over
   * already.
   */
  public void onEnd(Runnable action) {
    synchronized (this) {
      if (!ended) {
        onEnd = action;
        return;
      }
    }
    action.run();
  }

  /** Says that the source may have something new. */
  public void wake() {
    synchronized (this) {
      if (ended) {
        return;
      }
      again = true;
      if (running) {
        return;
      }
      running = true;
    }
    executor.execute(this::feed);
  }

  /** Ends the call with the status of {@code failure}. */
  public void fail(Throwable failure) {
    end(() -> observer.onError(Statuses.toException(failure)));
  }

  private void feed() {
    try {
      int sent = 0;
      while (true) {
        synchronized (this) {
          if (ended || !again) {
            running = false;
            return;
          }
          again = false;
        }
        T message;
        while (observer.isReady() && (message = source.next()) != null) {
          if (!send(message)) {
            return;
          }
          if (++sent >= MESSAGES_A_TURN) {
            synchronized (this) {
              again = true;
            }
            executor.execute(this::feed);
            return;
          }
        }
        if (source.ended()) {
          end(observer::onCompleted);
        }
      }
    } catch (Throwable failure) {
      fail(failure);
    }
  }

  // Under the lock, so that a failure from another thread cannot come between.
  private synchronized boolean send(T message) {
    if (!ended) {
      observer.onNext(message);
    }
    return !ended;
  }

  // The caller is answered first: an action that throws must not leave it waiting.
  private void end(Runnable answer) {
    Runnable action;
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      action = onEnd;
      answer.run();
    }
    action.run();
  }
}
