package berth.rpc;

import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CancellationException;

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

  public BlockingStream(StreamObserver<T> observer) {
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
   * @throws CancellationException if the caller has gone
   */
  public void send(T message) throws InterruptedException {
    synchronized (this) {
      while (!observer.isReady() && !observer.isCancelled()) {
        wait();
      }
    }
    if (observer.isCancelled()) {
      throw new CancellationException("the caller has gone");
    }
    observer.onNext(message);
  }

  private synchronized void look() {
    notifyAll();
  }
}
