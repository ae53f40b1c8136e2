package berth.rpc;

import io.grpc.stub.StreamObserver;
import java.util.concurrent.Callable;

/** Answers calls exactly once, whatever happens while the answer is made. */
public final class Replies {
  private Replies() {}

  /** Answers a unary call with what {@code work} returns, or with the status of what it throws. */
  public static <T> void unary(StreamObserver<T> observer, Callable<T> work) {
    T reply;
    try {
      reply = work.call();
    } catch (Throwable failure) {
      observer.onError(Statuses.toException(failure));
      return;
    }
    // Outside the try: a failure to deliver must not be answered a second time.
    observer.onNext(reply);
    observer.onCompleted();
  }
}
