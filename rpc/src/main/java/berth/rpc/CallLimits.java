package berth.rpc;

import io.grpc.Context;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerStreamTracer;
import io.grpc.Status;
import java.net.SocketAddress;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * Refuses calls that would be too many, and large messages while others fill the memory: those
 * whose messages are small are served all the same.
 */
final class CallLimits implements ServerInterceptor {
  private static final Context.Key<Receiving> RECEIVING = Context.key("receiving");
  private static final ServerCall.Listener<Object> NOBODY = new ServerCall.Listener<>() {};

  // What nearly every message has at most, and what every message may have that anybody waits for.
  private static final int USUAL_BYTES = 64 << 10;
  private static final int SMALL_BYTES = 4 << 10;

  private final ClientCount calls;
  private final long mostBytes;
  private final BooleanSupplier busy;
  private final AtomicLong bytes = new AtomicLong();
  private final Map<Object, Long> bytesOfClients = new ConcurrentHashMap<>();

  /**
   * @param calls that are open
   * @param mostBytes of messages that may arrive at the same time, half of them from one client;
   *     beyond that only small ones are taken
   * @param busy whether more calls wait to be served than should
   */
  CallLimits(ClientCount calls, long mostBytes, BooleanSupplier busy) {
    this.calls = calls;
    this.mostBytes = mostBytes;
    this.busy = busy;
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    if (busy.getAsBoolean()) {
      return refused(call, Status.UNAVAILABLE, "server overloaded; try again");
    }
    SocketAddress client = call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR);
    Optional<String> refusal = calls.add(client);
    if (refusal.isPresent()) {
      return refused(call, Status.RESOURCE_EXHAUSTED, "too many calls: " + refusal.get());
    }
    Receiving receiving = RECEIVING.get();
    receiving.begin(
        ClientCount.key(client),
        () ->
            refused(
                call,
                Status.RESOURCE_EXHAUSTED,
                "too many large requests at once; try again, or send the code as a bundle"),
        () -> calls.remove(client));
    ServerCall.Listener<Q> listener = next.startCall(call, headers);
    boolean oneMessage = call.getMethodDescriptor().getType().clientSendsOneMessage();
    return new SimpleForwardingServerCallListener<>(listener) {
      @Override
      public void onMessage(Q message) {
        if (!receiving.refused) {
          super.onMessage(message);
          if (!oneMessage) {
            receiving.forget();
          }
        }
      }

      @Override
      public void onHalfClose() {
        if (!receiving.refused) {
          super.onHalfClose();
          receiving.forget();
        }
      }
    };
  }

  /** Notes what arrives on each stream, before there is a message. */
  ServerStreamTracer.Factory tracers() {
    return new ServerStreamTracer.Factory() {
      @Override
      public ServerStreamTracer newServerStreamTracer(String method, Metadata headers) {
        return new Receiving();
      }
    };
  }

  @SuppressWarnings("unchecked")
  private static <Q> ServerCall.Listener<Q> refused(
      ServerCall<Q, ?> call, Status status, String why) {
    call.close(status.withDescription(why), new Metadata());
    return (ServerCall.Listener<Q>) NOBODY;
  }

  /** What has arrived on one stream and is not yet dealt with. */
  private final class Receiving extends ServerStreamTracer {
    private volatile boolean refused;
    private Optional<Object> client = Optional.empty();
    private Runnable onTooMuch = () -> {};
    private Runnable onEnd = () -> {};
    private boolean ended;
    private long pending;

    @Override
    public Context filterContext(Context context) {
      return context.withValue(RECEIVING, this);
    }

    synchronized void begin(Object caller, Runnable onTooMuch, Runnable onEnd) {
      this.onTooMuch = onTooMuch;
      if (ended) {
        onEnd.run();
        return;
      }
      this.onEnd = onEnd;
      client = Optional.of(caller);
      countForClient(pending);
    }

    // All of it, also of messages that never become whole: many small parts are much.
    @Override
    public synchronized void inboundWireSize(long size) {
      if (ended) {
        return;
      }
      pending += size;
      long ofAll = bytes.addAndGet(size);
      long ofClient = countForClient(size);
      if (!refused && client.isPresent() && pending > mostNow(ofAll, ofClient)) {
        refused = true;
        onTooMuch.run();
      }
    }

    private long mostNow(long ofAll, long ofClient) {
      if (ofAll > mostBytes + mostBytes / 2) {
        return SMALL_BYTES;
      }
      // The only message of a client may be as large as messages may be.
      boolean tooMuchOfOne = ofClient > mostBytes / 2 && ofClient > pending;
      return ofAll > mostBytes || tooMuchOfOne ? USUAL_BYTES : Long.MAX_VALUE;
    }

    private long countForClient(long more) {
      if (client.isEmpty() || more == 0) {
        return 0;
      }
      Long now =
          bytesOfClients.merge(
              client.get(), more, (had, added) -> had + added == 0 ? null : had + added);
      return now == null ? 0 : now;
    }

    synchronized void forget() {
      bytes.addAndGet(-pending);
      countForClient(-pending);
      pending = 0;
    }

    @Override
    public synchronized void streamClosed(Status status) {
      forget();
      if (!ended) {
        ended = true;
        onEnd.run();
      }
    }
  }
}
