package berth.rpc;

import io.grpc.BindableService;
import io.grpc.Codec;
import io.grpc.DecompressorRegistry;
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
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

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
  private static final long HEALTH_LOOK_SECONDS = 1;
  private static final long HANDSHAKE_SECONDS = 10;
  // Only without calls: long streams stay.
  private static final long IDLE_MINUTES = 10;
  private static final int MAX_METADATA_BYTES = 8 << 10;
  private static final int WINDOW_BYTES = 1 << 20;
  // Of a cluster, one connection may have a stream for each of its tasks on a server.
  private static final int MAX_CALLS_PER_CONNECTION = 2000;
  private static final int CALLS_FOR_EACH_CONNECTION = 4;
  // Calls that are begun and given up at once cost this server more than the caller
  // (CVE-2023-44487).
  private static final int MAX_RESETS = 4000;
  private static final int RESET_WINDOW_SECONDS = 10;
  private static final int CALL_THREADS = 64;
  private static final int MOST_WAITING_CALLS = 10_000;
  private static final long CALL_THREAD_IDLE_SECONDS = 30;
  private static final int MEMORY_SHARE = 4;
  // Nobody of ours compresses, and small messages could become large ones. Some say so.
  private static final DecompressorRegistry UNCOMPRESSED =
      DecompressorRegistry.emptyInstance().with(Codec.Identity.NONE, false);

  private final Server server;
  private final EventLoopGroup threads;
  private final Optional<ExecutorService> callThreads;
  private final HealthStatusManager health;
  private final Address address;
  private final Runnable endStreams;
  private final AtomicBoolean closed = new AtomicBoolean();

  private RpcServer(
      Server server,
      EventLoopGroup threads,
      Optional<ExecutorService> callThreads,
      HealthStatusManager health,
      Address address,
      Runnable endStreams) {
    this.server = server;
    this.threads = threads;
    this.callThreads = callThreads;
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
    callThreads.ifPresent(ExecutorService::shutdown);
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
    private Optional<ThreadPoolExecutor> executor = Optional.empty();
    private long maxLargeBytes = Runtime.getRuntime().maxMemory() / MEMORY_SHARE;
    private int maxConnections = 4000;
    private int maxConnectionsPerClient = 1000;
    private Optional<Integer> maxCallsPerClient = Optional.empty();
    private Optional<CallMeter> meter = Optional.empty();
    private Supplier<Optional<String>> problem = Optional::empty;
    private Runnable endStreams = () -> {};

    private Builder(Address address) {
      this.address = address;
    }

    public Builder service(BindableService service) {
      services.add(KnownFields.only(service.bindService()));
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

    /** Receives no more of large messages at the same time than this. */
    Builder maxLargeBytes(long bytes) {
      maxLargeBytes = bytes;
      return this;
    }

    /** Serves all calls in these threads, rather than in some of its own. */
    public Builder executor(ThreadPoolExecutor threads) {
      executor = Optional.of(threads);
      return this;
    }

    /** Takes no more connections, in all and from one client; of calls a few times as many. */
    public Builder maxConnections(int most, int mostOfOneClient) {
      maxConnections = most;
      maxConnectionsPerClient = mostOfOneClient;
      return this;
    }

    /** Takes no more calls from one client at the same time, where each may cost much memory. */
    public Builder maxCallsPerClient(int most) {
      maxCallsPerClient = Optional.of(most);
      return this;
    }

    /** Has all calls counted and measured. */
    public Builder record(CallRecorder recorder) {
      meter = Optional.of(new CallMeter(recorder, System::nanoTime));
      return this;
    }

    /**
     * Says by gRPC's health service whether this process is well.
     *
     * @param problem what is wrong with it, if anything; asked every second
     */
    public Builder healthyUnless(Supplier<Optional<String>> problem) {
      this.problem = problem;
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
            "refusing to listen on "
                + address
                + " without --insecure: calls are neither encrypted nor authenticated");
      }
      HealthStatusManager health = new HealthStatusManager();
      EventLoopGroup threads =
          new MultiThreadIoEventLoopGroup(
              new DefaultThreadFactory("berth-rpc", true), NioIoHandler.newFactory());
      ThreadPoolExecutor calls = executor.orElseGet(Builder::callThreads);
      CallLimits limits =
          new CallLimits(
              new ClientCount(
                  CALLS_FOR_EACH_CONNECTION * maxConnections,
                  maxCallsPerClient.orElse(CALLS_FOR_EACH_CONNECTION * maxConnectionsPerClient)),
              maxLargeBytes,
              () -> calls.getQueue().size() > MOST_WAITING_CALLS);
      ClientCount connections = new ClientCount(maxConnections, maxConnectionsPerClient);
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(
                  new InetSocketAddress(address.resolve(), address.port()), credentials)
              .maxInboundMessageSize(maxMessageBytes)
              .keepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
              .permitKeepAliveTime(KEEP_ALIVE_SECONDS / 2, TimeUnit.SECONDS)
              .permitKeepAliveWithoutCalls(true)
              .maxInboundMetadataSize(MAX_METADATA_BYTES)
              .maxConcurrentCallsPerConnection(MAX_CALLS_PER_CONNECTION)
              .maxRstFramesPerWindow(MAX_RESETS, RESET_WINDOW_SECONDS)
              .flowControlWindow(WINDOW_BYTES)
              .handshakeTimeout(HANDSHAKE_SECONDS, TimeUnit.SECONDS)
              .maxConnectionIdle(IDLE_MINUTES, TimeUnit.MINUTES)
              .decompressorRegistry(UNCOMPRESSED)
              .addStreamTracerFactory(limits.tracers())
              .intercept(new Caller.Interceptor())
              .intercept(limits)
              .channelFactory(() -> new LimitedServerChannel(connections))
              .bossEventLoopGroup(threads)
              .workerEventLoopGroup(threads)
              .executor(calls)
              .addServices(services)
              .addService(health.getHealthService())
              .addService(ProtoReflectionServiceV1.newInstance());
      OtherDaemon.beside(services).ifPresent(builder::fallbackHandlerRegistry);
      // The last one is the outermost: it measures the others too.
      meter.ifPresent(
          measured -> {
            services.forEach(measured::add);
            builder.intercept(measured);
          });
      Server server;
      try {
        server = builder.build().start();
      } catch (IOException e) {
        end(threads);
        ownThreads(calls).ifPresent(ExecutorService::shutdownNow);
        String why = e.getCause() == null ? e.getMessage() : e.getCause().getMessage();
        throw new BerthException(Reason.UNAVAILABLE, "cannot listen on " + address + ": " + why, e);
      }
      Runnable look = () -> tell(health);
      look.run();
      threads.scheduleAtFixedRate(look, HEALTH_LOOK_SECONDS, HEALTH_LOOK_SECONDS, TimeUnit.SECONDS);
      return new RpcServer(
          server,
          threads,
          ownThreads(calls),
          health,
          new Address(address.host(), server.getPort()),
          endStreams);
    }

    private static ThreadPoolExecutor callThreads() {
      ThreadPoolExecutor threads =
          new ThreadPoolExecutor(
              CALL_THREADS,
              CALL_THREADS,
              CALL_THREAD_IDLE_SECONDS,
              TimeUnit.SECONDS,
              new LinkedBlockingQueue<>(),
              new DefaultThreadFactory("berth-call", true));
      threads.allowCoreThreadTimeOut(true);
      return threads;
    }

    private Optional<ExecutorService> ownThreads(ThreadPoolExecutor calls) {
      return executor.isPresent() ? Optional.empty() : Optional.of(calls);
    }

    private void tell(HealthStatusManager health) {
      ServingStatus status =
          problem.get().isEmpty() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
      health.setStatus(HealthStatusManager.SERVICE_NAME_ALL_SERVICES, status);
      for (ServerServiceDefinition service : services) {
        health.setStatus(service.getServiceDescriptor().getName(), status);
      }
    }
  }
}
