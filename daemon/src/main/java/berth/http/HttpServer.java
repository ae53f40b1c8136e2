package berth.http;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.ClientCount;
import berth.rpc.Reason;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.timeout.IdleStateHandler;
import io.netty.util.concurrent.DefaultThreadFactory;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** A listening HTTP/1.1 server. */
public final class HttpServer implements AutoCloseable {
  private static final int MAX_REQUEST_BYTES = 64 << 10;
  private static final int MAX_CONNECTIONS = 1000;
  private static final int MAX_CONNECTIONS_PER_CLIENT = 200;
  // Beyond these, and only for what monitoring asks for: one request each, and soon.
  private static final int SPARE_CONNECTIONS = 64;
  private static final int SPARE_CONNECTIONS_PER_CLIENT = 8;
  private static final int SPARE_SECONDS = 5;
  private static final int THREADS = 4;
  private static final int WAITING_CALLS = 256;
  private static final int WAITING_VITAL_CALLS = 64;
  // A connection on which nothing was said for so long. Readers of events are sent something more
  // often, unless they do not read.
  private static final int IDLE_SECONDS = 60;
  private static final int BEAT_SECONDS = 10;
  private static final long STOP_SECONDS = 2;

  // Events of a second for a large group fit in; a reader that is further behind is slow.
  private static final WriteBufferWaterMark BUFFER = new WriteBufferWaterMark(256 << 10, 1 << 20);

  private final Channel listener;
  private final ChannelGroup connections;
  private final EventLoopGroup eventLoops;
  private final List<ExecutorService> threads;
  private final Address address;

  private HttpServer(
      Channel listener,
      ChannelGroup connections,
      EventLoopGroup eventLoops,
      List<ExecutorService> threads,
      Address address) {
    this.listener = listener;
    this.connections = connections;
    this.eventLoops = eventLoops;
    this.threads = threads;
    this.address = address;
  }

  public static Builder listenOn(Address address) {
    return new Builder(address);
  }

  /** Where the server really listens: the port is never 0. */
  public Address address() {
    return address;
  }

  /** Ends all connections, and frees the port. */
  @Override
  public void close() {
    listener.close().awaitUninterruptibly(STOP_SECONDS, TimeUnit.SECONDS);
    connections.close().awaitUninterruptibly(STOP_SECONDS, TimeUnit.SECONDS);
    threads.forEach(ExecutorService::shutdownNow);
    end(eventLoops);
  }

  private static void end(EventLoopGroup eventLoops) {
    eventLoops
        .shutdownGracefully(0, STOP_SECONDS, TimeUnit.SECONDS)
        .awaitUninterruptibly(STOP_SECONDS, TimeUnit.SECONDS);
  }

  /** What a server is made of. */
  public static final class Builder {
    private final Address address;
    private final List<Route> routes = new ArrayList<>();
    private final List<String> names = new ArrayList<>();
    private boolean beyondLoopback;
    private int maxConnections = MAX_CONNECTIONS;
    private int maxConnectionsPerClient = MAX_CONNECTIONS_PER_CLIENT;
    private Duration requestTime = Duration.ofSeconds(IDLE_SECONDS);

    private Builder(Address address) {
      this.address = address;
    }

    /** Allows it to listen beyond loopback, where anyone can read what it shows. */
    public Builder insecureBeyondLoopback(boolean allowed) {
      beyondLoopback = allowed;
      return this;
    }

    /** Answers browsers also under these names, beside those that are surely its own. */
    public Builder names(Collection<String> further) {
      names.addAll(further);
      return this;
    }

    /**
     * Answers GET and HEAD.
     *
     * @param path such as {@code /runs/{run}}
     */
    public Builder get(String path, HttpHandler handler) {
      routes.add(Route.of(HttpMethod.GET, path, handler));
      return this;
    }

    /**
     * Answers GET and HEAD also while all connections and threads are taken by others. For what
     * monitoring asks, and only what needs no waiting.
     */
    public Builder vital(String path, HttpHandler handler) {
      routes.add(Route.vital(path, handler));
      return this;
    }

    /** What is answered so far. */
    List<Route> routes() {
      return List.copyOf(routes);
    }

    Builder maxConnections(int most, int mostOfOneClient) {
      maxConnections = most;
      maxConnectionsPerClient = mostOfOneClient;
      return this;
    }

    /** How long a connection may take for its next request, from its beginning or last answer. */
    Builder requestTime(Duration time) {
      requestTime = time;
      return this;
    }

    /** Answers POST; the body is ignored. */
    public Builder post(String path, HttpHandler handler) {
      routes.add(Route.of(HttpMethod.POST, path, handler));
      return this;
    }

    /**
     * @throws BerthException if the address is taken, or beyond loopback without permission
     */
    public HttpServer start() {
      if (!address.isLoopback() && !beyondLoopback) {
        throw new BerthException(
            Reason.INVALID,
            "refusing to serve HTTP on "
                + address
                + " without --insecure: it is neither encrypted nor authenticated");
      }
      EventLoopGroup eventLoops =
          new MultiThreadIoEventLoopGroup(
              1, new DefaultThreadFactory("http", true), NioIoHandler.newFactory());
      ExecutorService threads = threads("http-call", THREADS, WAITING_CALLS);
      ExecutorService vitalThreads = threads("http-vital", 1, WAITING_VITAL_CALLS);
      ClientCount usual = new ClientCount(maxConnections, maxConnectionsPerClient);
      ClientCount spare = new ClientCount(SPARE_CONNECTIONS, SPARE_CONNECTIONS_PER_CLIENT);
      KnownNames known = new KnownNames(address, names);
      ChannelGroup connections = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
      ChannelFuture bound =
          new ServerBootstrap()
              .group(eventLoops)
              .channel(NioServerSocketChannel.class)
              .option(ChannelOption.SO_REUSEADDR, true)
              .childOption(ChannelOption.TCP_NODELAY, true)
              .childOption(ChannelOption.WRITE_BUFFER_WATER_MARK, BUFFER)
              .childHandler(
                  new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) {
                      SocketAddress client = channel.remoteAddress();
                      boolean isSpare = usual.add(client).isPresent();
                      ClientCount count = isSpare ? spare : usual;
                      if (isSpare && spare.add(client).isPresent()) {
                        channel.close();
                        return;
                      }
                      channel.closeFuture().addListener(closed -> count.remove(client));
                      connections.add(channel);
                      channel
                          .pipeline()
                          .addLast(
                              new IdleStateHandler(0, BEAT_SECONDS, IDLE_SECONDS),
                              new HttpServerCodec(),
                              new HttpObjectAggregator(MAX_REQUEST_BYTES, true),
                              new HttpConnection(
                                  routes(),
                                  known,
                                  threads,
                                  vitalThreads,
                                  isSpare,
                                  isSpare ? Duration.ofSeconds(SPARE_SECONDS) : requestTime));
                    }
                  })
              .bind(new InetSocketAddress(address.resolve(), address.port()))
              .awaitUninterruptibly();
      if (!bound.isSuccess()) {
        threads.shutdownNow();
        vitalThreads.shutdownNow();
        end(eventLoops);
        throw new BerthException(
            Reason.UNAVAILABLE,
            "cannot listen on " + address + ": " + bound.cause().getMessage(),
            bound.cause());
      }
      int port = ((InetSocketAddress) bound.channel().localAddress()).getPort();
      return new HttpServer(
          bound.channel(),
          connections,
          eventLoops,
          List.of(threads, vitalThreads),
          new Address(address.host(), port));
    }

    private static ExecutorService threads(String name, int count, int waiting) {
      return new ThreadPoolExecutor(
          count,
          count,
          IDLE_SECONDS,
          TimeUnit.SECONDS,
          new ArrayBlockingQueue<>(waiting),
          new DefaultThreadFactory(name, true));
    }
  }
}
