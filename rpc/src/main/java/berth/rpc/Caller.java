package berth.rpc;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import java.net.InetSocketAddress;
import java.net.SocketAddress;

/** Who makes the call that this thread serves. */
public final class Caller {
  private static final Context.Key<SocketAddress> ADDRESS = Context.key("caller");

  private Caller() {}

  /** Whether the call comes over loopback, so surely from this machine. */
  public static boolean isOnThisMachine() {
    SocketAddress address = ADDRESS.get();
    return !(address instanceof InetSocketAddress internet)
        || internet.getAddress() != null && internet.getAddress().isLoopbackAddress();
  }

  /** Where the call comes from, for {@link ClientCount}; null if not from any network. */
  public static SocketAddress address() {
    return ADDRESS.get();
  }

  /** Notes for each call where it comes from. */
  static final class Interceptor implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      SocketAddress address = call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR);
      return Contexts.interceptCall(
          Context.current().withValue(ADDRESS, address), call, headers, next);
    }
  }
}
