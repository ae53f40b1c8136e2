package berth.rpc;

import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerMethodDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A call as the server sees it that answers it, without a connection. What a service throws comes
 * out; what it does wrong is told by {@link #misuse}. For one caller; the service may answer from
 * any thread.
 */
public final class DirectCall<Q, A> {
  private static final long PATIENCE = TimeUnit.SECONDS.toNanos(60);

  private final MethodDescriptor<Q, A> method;
  private final ServerCall.Listener<Q> listener;
  private final List<A> answers = new ArrayList<>();
  private final List<String> misuse = new ArrayList<>();
  private Status status;
  private boolean cancelled;

  private DirectCall(ServerMethodDefinition<Q, A> called) {
    method = called.getMethodDescriptor();
    listener = called.getServerCallHandler().startCall(new Answering(), new Metadata());
    listener.onReady();
  }

  public static <Q, A> DirectCall<Q, A> to(ServerMethodDefinition<Q, A> method) {
    return new DirectCall<>(method);
  }

  /** Sends a message; false if gRPC would have ended the call because it is none. */
  public boolean send(byte[] message) {
    Q request;
    try {
      request = method.parseRequest(new ByteArrayInputStream(message));
    } catch (StatusRuntimeException e) {
      return false;
    }
    listener.onMessage(request);
    return true;
  }

  /** Says that nothing follows. */
  public void halfClose() {
    listener.onHalfClose();
  }

  /** Goes away, unless it has ended. */
  public void cancel() {
    synchronized (this) {
      if (status != null) {
        return;
      }
      cancelled = true;
    }
    listener.onCancel();
  }

  /** Waits until it has ended, or has at least so many answers. */
  public synchronized void await(int wanted) throws InterruptedException {
    long deadline = System.nanoTime() + PATIENCE;
    while (status == null && answers.size() < wanted) {
      long left = deadline - System.nanoTime();
      if (left <= 0) {
        throw new AssertionError(method.getFullMethodName() + " does not answer");
      }
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
  }

  /** How it ended; null if it has not. */
  public synchronized Status status() {
    return status;
  }

  public synchronized List<A> answers() {
    return List.copyOf(answers);
  }

  /** What no service may do, one sentence each. */
  public synchronized List<String> misuse() {
    return List.copyOf(misuse);
  }

  private final class Answering extends ServerCall<Q, A> {
    @Override
    public void request(int messages) {}

    @Override
    public void sendHeaders(Metadata headers) {}

    @Override
    public void sendMessage(A message) {
      synchronized (DirectCall.this) {
        if (status != null) {
          misuse.add("an answer after the end");
        }
        answers.add(message);
        DirectCall.this.notifyAll();
      }
    }

    @Override
    public void close(Status end, Metadata trailers) {
      synchronized (DirectCall.this) {
        if (status != null) {
          misuse.add("a second end, with " + end);
        }
        status = end;
        DirectCall.this.notifyAll();
      }
    }

    @Override
    public boolean isCancelled() {
      synchronized (DirectCall.this) {
        return cancelled;
      }
    }

    @Override
    public MethodDescriptor<Q, A> getMethodDescriptor() {
      return method;
    }
  }
}
