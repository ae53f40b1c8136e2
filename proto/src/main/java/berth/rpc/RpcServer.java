package berth.rpc;

import berth.metrics.Metrics;
import io.grpc.BindableService;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.ServerServiceDefinition;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A listening gRPC server. Every server of Berth is made here, so all have the same limits, the
 * health service and server reflection.
 */
public final class RpcServer implements AutoCloseable {
  /**
   * The largest message a server or a client takes. Files and output travel as streams of smaller
   * pieces.
   */
  static final int MAX_MESSAGE_BYTES = 16 << 20;

  static final long KEEP_ALIVE_SECONDS = 20;
  private static final long STOP_GRACE_SECONDS = 5;

  private final Server server;
  private final EventLoopGroup threads;
  private final HealthStatusManager health;
  private final Address address;
  private final Runnable endStreams;
  private final AtomicBoolean closed = new AtomicBoolean();

  private RpcServer(
      Server server,
      EventLoopGroup threads,
      HealthStatusManager health,
      Address address,
      Runnable endStreams) {
    this.server = server;
    this.threads = threads;
    this.health = health;
    this.address = address;
    this.endStreams = endStreams;
  }

  public static Builder listenOn(Address address) {
    return new Builder(address);
  }

  /** Where the server really listens: the port is never 0. */
  public Address address() {
    return address;
  }

  /** Blocks until the server is closed. */
  public void awaitTermination() throws InterruptedException {
    server.awaitTermination();
  }

  /** Takes no further calls, gives the running ones a moment, then ends them; frees the port. */
  @Override
  public void close() {
    if (closed.getAndSet(true)) {
      return;
    }
    health.enterTerminalState();
    server.shutdown();
    endStreams.run();
    try {
      if (!server.awaitTermination(STOP_GRACE_SECONDS, TimeUnit.SECONDS)) {
        server.shutdownNow().awaitTermination(STOP_GRACE_SECONDS, TimeUnit.SECONDS);
      }
    } catch (InterruptedException e) {
      server.shutdownNow();
      Thread.currentThread().interrupt();
    }
    end(threads);
  }

  // The kernel lets go of the port when its thread has looked at it once more, which is after gRPC
  // calls the server terminated.
  private static void end(EventLoopGroup threads) {
    threads
        .shutdownGracefully(0, STOP_GRACE_SECONDS, TimeUnit.SECONDS)
        .awaitUninterruptibly(STOP_GRACE_SECONDS, TimeUnit.SECONDS);
  }

  /** What a server is made of. */
  public static final class Builder {
    private final Address address;
    private final List<ServerServiceDefinition> services = new ArrayList<>();
    private ServerCredentials credentials = InsecureServerCredentials.create();
    private boolean beyondLoopback;
    private int maxMessageBytes = MAX_MESSAGE_BYTES;
    private Executor executor;
    private Optional<CallMetrics> metrics = Optional.empty();
    private Runnable endStreams = () -> {};

    private Builder(Address address) {
      this.address = address;
    }

    public Builder service(BindableService service) {
      services.add(service.bindService());
      return this;
    }

    /** Speaks TLS. A server with credentials may listen anywhere. */
    public Builder credentials(ServerCredentials credentials) {
      this.credentials = credentials;
      this.beyondLoopback = true;
      return this;
    }

    /** Allows a server without TLS to listen beyond loopback, where anyone can call it. */
    public Builder insecureBeyondLoopback(boolean allowed) {
      beyondLoopback |= allowed;
      return this;
    }

    /** Takes no larger messages, where callers have no reason to send any. */
    public Builder maxMessageBytes(int bytes) {
      maxMessageBytes = bytes;
      return this;
    }

    /** Serves all calls in these threads, rather than in as many as there are calls. */
    public Builder executor(Executor threads) {
      executor = threads;
      return this;
    }

    /** Counts and measures all calls. One server at most for each {@link Metrics}. */
    public Builder metrics(Metrics target) {
      metrics = Optional.of(new CallMetrics(target, System::nanoTime));
      return this;
    }

    /**
     * Runs {@code action} too when the server stops, to end the streams that would go on for ever.
     */
    public Builder endStreams(Runnable action) {
      Runnable before = endStreams;
      endStreams =
          () -> {
            before.run();
            action.run();
          };
      return this;
    }

    /**
     * Starts to listen.
     *
     * @throws BerthException if the address is taken, is not this machine's, or is refused for
     *     being open to everyone
     */
    public RpcServer start() {
      if (!beyondLoopback && !address.isLoopback()) {
        throw new BerthException(
            Reason.INVALID,
            "will not listen on "
                + address
                + ", where anyone could call: use a loopback address, or --insecure");
      }
      HealthStatusManager health = new HealthStatusManager();
      EventLoopGroup threads =
          new MultiThreadIoEventLoopGroup(
              new DefaultThreadFactory("berth-rpc", true), NioIoHandler.newFactory());
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(
                  new InetSocketAddress(address.resolve(), address.port()), credentials)
              .maxInboundMessageSize(maxMessageBytes)
              .keepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
              .permitKeepAliveTime(KEEP_ALIVE_SECONDS / 2, TimeUnit.SECONDS)
              .permitKeepAliveWithoutCalls(true)
              .intercept(new Caller.Interceptor())
              .channelType(NioServerSocketChannel.class)
              .bossEventLoopGroup(threads)
              .workerEventLoopGroup(threads)
              .executor(executor)
              .addServices(services)
              .addService(health.getHealthService())
              .addService(ProtoReflectionServiceV1.newInstance());
      // The last one is the outermost: it measures the others too.
      metrics.ifPresent(
          calls -> {
            services.forEach(calls::add);
            builder.intercept(calls);
          });
      Server server;
      try {
        server = builder.build().start();
      } catch (IOException e) {
        end(threads);
        String why = e.getCause() == null ? e.getMessage() : e.getCause().getMessage();
        throw new BerthException(Reason.UNAVAILABLE, "cannot listen on " + address + ": " + why, e);
      }
      for (ServerServiceDefinition service : services) {
        health.setStatus(service.getServiceDescriptor().getName(), ServingStatus.SERVING);
      }
      return new RpcServer(
          server, threads, health, new Address(address.host(), server.getPort()), endStreams);
    }
  }
}
