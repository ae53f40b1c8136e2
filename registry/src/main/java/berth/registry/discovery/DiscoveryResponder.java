package berth.registry.discovery;

import berth.discovery.Datagrams;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketProtocolFamily;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.SecureRandom;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Tells those who ask by UDP, over IPv4, that a registry is here. Memory, work and traffic stay
 * bounded whatever is sent to it. Any thread may close it.
 */
public final class DiscoveryResponder implements AutoCloseable {
  private static final ThreadFactory DAEMON_THREAD = new DefaultThreadFactory("discovery", true);

  private final EventLoopGroup eventLoop =
      new MultiThreadIoEventLoopGroup(1, DAEMON_THREAD, NioIoHandler.newFactory());
  private final Address address;
  private final QueryHandler handler;

  private DiscoveryResponder(Address bind, int registryTcpPort, String name) {
    try {
      InetAddress host = bind.resolve();
      boolean everywhere = host.isAnyLocalAddress();
      if (!everywhere && !(host instanceof Inet4Address)) {
        throw new BerthException(
            Reason.UNAVAILABLE, "discovery is for IPv4, and " + bind.host() + " is not");
      }
      // A socket that is bound to an address of a network hears no broadcasts.
      Channel queries =
          host.isLoopbackAddress()
              ? open(new InetSocketAddress(host, bind.port()))
              : open(new InetSocketAddress("0.0.0.0", bind.port()));
      // Answers name the registry's host by where they come from, so they must come from where it
      // listens.
      Channel replies =
          everywhere || host.isLoopbackAddress() ? queries : open(new InetSocketAddress(host, 0));
      long instance = new SecureRandom().nextLong();
      handler = new QueryHandler(Datagrams.answer(registryTcpPort, name, instance), replies);
      queries.pipeline().addLast(handler);
      queries.config().setAutoRead(true);
      address = new Address(bind.host(), ((InetSocketAddress) queries.localAddress()).getPort());
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  /**
   * Starts to answer queries.
   *
   * @param bind the host on which the registry listens, and the UDP port for queries; 0 for any
   *     free one
   * @param registryTcpPort the port on which the registry listens
   * @param name of the registry, as people see it
   * @throws BerthException UNAVAILABLE if the port is taken or the host is not one of IPv4; INVALID
   *     if the name is none, or the host has no address
   */
  public static DiscoveryResponder listenOn(Address bind, int registryTcpPort, String name) {
    if (!Datagrams.isName(name)) {
      throw new BerthException(
          Reason.INVALID,
          "a registry cannot be called '"
              + name
              + "': 1 to 100 letters, digits, dots, dashes and underscores are possible");
    }
    return new DiscoveryResponder(bind, registryTcpPort, name);
  }

  /** Opens a socket that does not read yet. */
  private Channel open(InetSocketAddress address) {
    ChannelFuture bound =
        new Bootstrap()
            .group(eventLoop)
            .channelFactory(() -> new NioDatagramChannel(SocketProtocolFamily.INET))
            .option(ChannelOption.AUTO_READ, false)
            // A datagram that fills this is too long, however long it was.
            .option(
                ChannelOption.RECVBUF_ALLOCATOR,
                new FixedRecvByteBufAllocator(Datagrams.MAX_QUERY_BYTES + 1))
            .handler(new ChannelInboundHandlerAdapter())
            .bind(address)
            .awaitUninterruptibly();
    if (!bound.isSuccess()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "cannot listen for queries on UDP "
              + address.getAddress().getHostAddress()
              + ":"
              + address.getPort()
              + ": "
              + bound.cause().getMessage(),
          bound.cause());
    }
    return bound.channel();
  }

  /** Where it listens for queries: the port is never 0. */
  public Address address() {
    return address;
  }

  long unanswered(Unanswered.Why why) {
    return eventLoop.submit(() -> handler.unanswered().count(why)).syncUninterruptibly().getNow();
  }

  int rememberedSources() {
    return eventLoop.submit(() -> handler.limit().sources()).syncUninterruptibly().getNow();
  }

  @Override
  public void close() {
    eventLoop.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
  }
}
