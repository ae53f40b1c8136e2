package berth.rpc;

import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.LinkedList;
import java.util.ListIterator;

/**
 * Sends messages to one caller no faster than the caller reads, through a bounded queue.
 *
 * <p>{@link #send}, {@link #complete} and {@link #fail} may be called from any thread, also after
 * the end, and never block. The constructor must run inside the service method, because gRPC
 * accepts handlers only there.
 */
public final class StreamPump<T> {
  private record Entry<T>(T message, int skipped) {}

  private final ServerCallStreamObserver<T> observer;
  private final int capacity;
  private final Overflow<T> overflow;
  private final LinkedList<Entry<T>> queue = new LinkedList<>();
  private Runnable onEnd = () -> {};
  private int skippedAtTail;
  private boolean completing;
  private boolean ended;

  /** What happens to a caller that reads too slowly. */
  public interface Overflow<T> {
    /**
     * Whether {@code message} may be left out when the queue is full. The oldest such message goes
     * first.
     */
    boolean mayDrop(T message);

    /**
     * Tells the caller how many messages were left out directly before {@code message}; called only
     * if any were.
     */
    T afterSkipping(T message, int skipped);

    /** Nothing may be left out: a full queue ends the call. */
    static <T> Overflow<T> endCall() {
      return new Overflow<>() {
        @Override
        public boolean mayDrop(T message) {
          return false;
        }

        @Override
        public T afterSkipping(T message, int skipped) {
          throw new AssertionError("nothing is ever skipped");
        }
      };
    }
  }

  /**
   * @param observer the observer that gRPC handed to the service method
   * @param capacity how many messages may wait for the caller
   */
  public StreamPump(StreamObserver<T> observer, int capacity, Overflow<T> overflow) {
    this.observer = (ServerCallStreamObserver<T>) observer;
    this.capacity = capacity;
    this.overflow = overflow;
    this.observer.setOnReadyHandler(this::pump);
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

  /** Queues a message and sends what the caller has room for. Ignored after the end. */
  public void send(T message) {
    boolean tooSlow;
    synchronized (this) {
      if (ended || completing) {
        return;
      }
      queue.add(new Entry<>(message, skippedAtTail));
      skippedAtTail = 0;
      tooSlow = queue.size() > capacity && !dropOldest();
    }
    if (tooSlow) {
      fail(
          new BerthException(
              Reason.EXHAUSTED,
              "the client reads too slowly: " + capacity + " messages are waiting for it"));
      return;
    }
    pump();
  }

  /** Ends the call well once everything queued is sent. */
  public void complete() {
    synchronized (this) {
      completing = true;
    }
    pump();
  }

  /** Ends the call with the status of {@code failure}, without what is still queued. */
  public void fail(Throwable failure) {
    end(() -> observer.onError(Statuses.toException(failure)));
  }

  // Returns false if nothing may be dropped. A dropped message, and what was skipped before it,
  // counts for the message after it, which may not be there yet.
  private boolean dropOldest() {
    ListIterator<Entry<T>> entries = queue.listIterator();
    while (entries.hasNext()) {
      Entry<T> dropped = entries.next();
      if (overflow.mayDrop(dropped.message)) {
        entries.remove();
        int skipped = dropped.skipped + 1;
        if (entries.hasNext()) {
          Entry<T> next = entries.next();
          entries.set(new Entry<>(next.message, next.skipped + skipped));
        } else {
          skippedAtTail = skipped;
        }
        return true;
      }
    }
    return false;
  }

  private void pump() {
    boolean finished = false;
    synchronized (this) {
      // The lock also keeps two threads from calling the observer at once, which it does not allow.
      while (!ended && !queue.isEmpty() && observer.isReady()) {
        Entry<T> next = queue.remove();
        observer.onNext(
            next.skipped == 0 ? next.message : overflow.afterSkipping(next.message, next.skipped));
      }
      finished = completing && queue.isEmpty();
    }
    if (finished) {
      end(observer::onCompleted);
    }
  }

  // The caller is answered first: an action that throws must not leave it waiting.
  private void end(Runnable answer) {
    Runnable action;
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      queue.clear();
      action = onEnd;
    }
    answer.run();
    action.run();
  }
}
