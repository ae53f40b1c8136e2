package berth.rpc;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;

/**
 * Follows the calls of a server for a {@link CallRecorder}. How long a stream lasts says nothing
 * about the server, so only the time until its first message is measured.
 */
final class CallMeter implements ServerInterceptor {
  private final CallRecorder recorder;
  private final LongSupplier nanoClock;
  private final Map<String, CallRecorder.Method> byName = new ConcurrentHashMap<>();

  CallMeter(CallRecorder recorder, LongSupplier nanoClock) {
    this.recorder = recorder;
    this.nanoClock = nanoClock;
  }

  /** Names the methods of a service to the recorder, before anybody calls them. */
  void add(ServerServiceDefinition service) {
    service.getMethods().forEach(method -> recorded(method.getMethodDescriptor()));
  }

  // Only methods that are served come here, so nobody can make up any number of them.
  private CallRecorder.Method recorded(MethodDescriptor<?, ?> method) {
    return byName.computeIfAbsent(method.getFullMethodName(), recorder::method);
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    CallRecorder.Method method = recorded(call.getMethodDescriptor());
    method.started();
    Measured<Q, A> measured = new Measured<>(call, method);
    return new Heard<>(next.startCall(measured, headers), measured);
  }

  /** What the server says in a call. */
  private final class Measured<Q, A> extends SimpleForwardingServerCall<Q, A> {
    private final CallRecorder.Method method;
    private final AtomicBoolean over = new AtomicBoolean();
    private volatile long askedAt = nanoClock.getAsLong();
    private boolean answered;

    Measured(ServerCall<Q, A> call, CallRecorder.Method method) {
      super(call);
      this.method = method;
    }

    @Override
    public void sendMessage(A message) {
      answered();
      super.sendMessage(message);
    }

    @Override
    public void close(Status status, Metadata trailers) {
      if (getMethodDescriptor().getType().serverSendsOneMessage()) {
        answered();
      }
      over(status.getCode());
      super.close(status, trailers);
    }

    private void answered() {
      if (!answered) {
        answered = true;
        method.answered(nanoClock.getAsLong() - askedAt);
      }
    }

    void askedCompletely() {
      if (getMethodDescriptor().getType() == MethodType.CLIENT_STREAMING) {
        // How long a caller needs to send its request is not the server's doing.
        askedAt = nanoClock.getAsLong();
      }
    }

    // A caller may go away while the call is being closed.
    void over(Status.Code code) {
      if (over.compareAndSet(false, true)) {
        method.finished(code.name());
      }
    }
  }

  /** What the caller says in a call. */
  private static final class Heard<Q> extends SimpleForwardingServerCallListener<Q> {
    private final Measured<Q, ?> call;

    Heard(ServerCall.Listener<Q> next, Measured<Q, ?> call) {
      super(next);
      this.call = call;
    }

    @Override
    public void onMessage(Q message) {
      orUnknown(() -> super.onMessage(message));
    }

    @Override
    public void onHalfClose() {
      call.askedCompletely();
      orUnknown(super::onHalfClose);
    }

    @Override
    public void onCancel() {
      call.over(Status.Code.CANCELLED);
      super.onCancel();
    }

    // gRPC ends the call of a handler that throws by itself, with this status.
    private void orUnknown(Runnable handler) {
      try {
        handler.run();
      } catch (RuntimeException | Error e) {
        call.over(Status.Code.UNKNOWN);
        throw e;
      }
    }
  }
}
