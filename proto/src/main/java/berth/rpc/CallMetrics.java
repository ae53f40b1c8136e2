package berth.rpc;

import berth.metrics.Counter;
import berth.metrics.Histogram;
import berth.metrics.Labelled;
import berth.metrics.Metrics;
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
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;

/**
 * Counts the calls of a server by method, how they ended, and how long callers waited for the first
 * answer. How long a stream lasts says nothing about the server, so that is not measured.
 */
final class CallMetrics implements ServerInterceptor {
  private static final double[] BOUNDS = {
    .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10
  };

  /** What is counted of one method, found once. */
  private record Calls(Counter started, Counter ok, Histogram latency) {}

  private final LongSupplier nanoClock;
  private final Labelled<Counter> started;
  private final Labelled<Counter> finished;
  private final Labelled<Histogram> latency;
  private final Map<String, Calls> byMethod = new ConcurrentHashMap<>();

  CallMetrics(Metrics metrics, LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
    started = metrics.counters("berth_rpc_started_total", "Calls that were begun.", "method");
    finished =
        metrics.counters(
            "berth_rpc_finished_total",
            "Calls that are over, by gRPC's status. CANCELLED: the caller went away.",
            "method",
            "code");
    latency =
        metrics.histograms(
            "berth_rpc_latency_seconds",
            "Time until a call was answered; of a stream, until its first message.",
            List.of("method"),
            BOUNDS);
  }

  /** Shows the methods of a service from now on, also those that nobody calls. */
  void add(ServerServiceDefinition service) {
    service.getMethods().forEach(method -> calls(method.getMethodDescriptor()));
  }

  // Only methods that are served come here, so nobody can make up any number of them.
  private Calls calls(MethodDescriptor<?, ?> method) {
    return byMethod.computeIfAbsent(
        method.getFullMethodName(),
        name ->
            new Calls(
                started.with(name),
                finished.with(name, Status.Code.OK.name()),
                latency.with(name)));
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    Calls calls = calls(call.getMethodDescriptor());
    calls.started.increment();
    Measured<Q, A> measured = new Measured<>(call, calls);
    return new Heard<>(next.startCall(measured, headers), measured);
  }

  /** What the server says in a call. */
  private final class Measured<Q, A> extends SimpleForwardingServerCall<Q, A> {
    private final Calls calls;
    private final AtomicBoolean over = new AtomicBoolean();
    private volatile long askedAt = nanoClock.getAsLong();
    private boolean answered;

    Measured(ServerCall<Q, A> call, Calls calls) {
      super(call);
      this.calls = calls;
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
        calls.latency.observeNanos(nanoClock.getAsLong() - askedAt);
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
        Counter counter =
            code == Status.Code.OK
                ? calls.ok
                : finished.with(getMethodDescriptor().getFullMethodName(), code.name());
        counter.increment();
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
