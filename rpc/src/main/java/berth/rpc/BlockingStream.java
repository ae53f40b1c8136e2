package berth.rpc;

import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeUnit;

/**
 * Sends one caller a stream that a thread produces, and makes that thread wait while the caller
 * does not read. The constructor must run inside the service method; {@link #serve} on a thread
 * that may wait.
 */
public final class BlockingStream<T> {
  /** What produces the stream, by calls of {@link #send}. */
  public interface Producer {
    void produce() throws Exception;
  }

  private final ServerCallStreamObserver<T> observer;
  private final Duration patience;

  /**
   * @param patience how long the caller may read nothing until it is given up
   */
  public BlockingStream(StreamObserver<T> observer, Duration patience) {
    this.patience = patience;
    this.observer = (ServerCallStreamObserver<T>) observer;
    this.observer.setOnReadyHandler(this::look);
    this.observer.setOnCancelHandler(this::look);
  }

  /** Sends all that {@code producer} produces, and ends the call. */
  public void serve(Producer producer) {
    try {
      producer.produce();
    } catch (Throwable failure) {
      observer.onError(Statuses.toException(failure));
      return;
    }
    observer.onCompleted();
  }

  /**
   * Sends a message as soon as the caller has room for it.
   *
   * @throws CancellationException if client disconnected
   * @throws BerthException TIMED_OUT if it does not read
   */
  public void send(T message) throws InterruptedException {
    long deadline = System.nanoTime() + patience.toNanos();
    synchronized (this) {
      while (!observer.isReady() && !observer.isCancelled()) {
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          throw new BerthException(
              Reason.TIMED_OUT, "the client has read nothing for " + patience.toSeconds() + " s");
        }
        TimeUnit.NANOSECONDS.timedWait(this, left);
      }
    }
    if (observer.isCancelled()) {
      throw new CancellationException("client disconnected");
    }
    observer.onNext(message);
  }

  private synchronized void look() {
    notifyAll();
  }
}
