package berth.rpc;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The caller's side of a stream: reads only when told to, and remembers what it read. */
final class Reader<Q, R> implements ClientResponseObserver<Q, R> {
  private final BlockingQueue<R> unread = new LinkedBlockingQueue<>();
  private final CompletableFuture<Status> end = new CompletableFuture<>();
  private ClientCallStreamObserver<Q> call;

  @Override
  public void beforeStart(ClientCallStreamObserver<Q> call) {
    this.call = call;
    call.disableAutoRequestWithInitial(0);
  }

  @Override
  public void onNext(R message) {
    unread.add(message);
  }

  @Override
  public void onError(Throwable failure) {
    end.complete(Status.fromThrowable(failure));
  }

  @Override
  public void onCompleted() {
    end.complete(Status.OK);
  }

  /** Reads one message, for which it waits. */
  R next() throws InterruptedException {
    call.request(1);
    R message = unread.poll(30, TimeUnit.SECONDS);
    if (message == null) {
      throw new AssertionError("no message; the call is " + end.getNow(null));
    }
    return message;
  }

  /** Reads to the end of the stream, for which it waits. */
  List<R> rest() {
    call.request(Integer.MAX_VALUE);
    status();
    List<R> messages = new ArrayList<>();
    unread.drainTo(messages);
    return messages;
  }

  /** How the call ended, for which it waits. */
  Status status() {
    return end.orTimeout(30, TimeUnit.SECONDS).join();
  }

  void cancel() {
    call.cancel("the test has seen enough", null);
  }
}
