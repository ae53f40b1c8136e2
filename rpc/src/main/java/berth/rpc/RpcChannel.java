package berth.rpc;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * A connection to one server, made on the first call and made again whenever it broke. Every client
 * of Berth is made here. Any thread may use it.
 */
public final class RpcChannel implements AutoCloseable {
  // Enough for the longest message of a failure, each character of which may take nine bytes.
  private static final int MAX_METADATA_BYTES = 32 << 10;

  private static final ThreadFactory DAEMON_THREADS =
      new DefaultThreadFactory("berth-channel", true);

  private static final long END_SECONDS = 1;

  private final ManagedChannel channel;
  private final Runnable endThreads;

  private RpcChannel(ManagedChannel channel, Runnable endThreads) {
    this.channel = channel;
    this.endThreads = endThreads;
  }

  public static RpcChannel to(Address address) {
    return to(address, InsecureChannelCredentials.create());
  }

  public static RpcChannel to(Address address, ChannelCredentials credentials) {
    // gRPC's own event loops outlive their channels by a second, and a JVM that exits waits 300 ms
    // for a thread that sits in a system call: too long for a command.
    EventLoopGroup eventLoop =
        new MultiThreadIoEventLoopGroup(1, DAEMON_THREADS, NioIoHandler.newFactory());
    ManagedChannel channel = builder(address, credentials, eventLoop).build();
    return new RpcChannel(
        channel,
        () -> {
          awaitEnd(channel);
          eventLoop
              .shutdownGracefully(0, END_SECONDS, TimeUnit.SECONDS)
              .awaitUninterruptibly(END_SECONDS, TimeUnit.SECONDS);
        });
  }

  /**
   * One of many connections, without any thread of its own. What arrives is passed on by the shared
   * threads, which must not wait.
   */
  public static RpcChannel to(Address address, RpcThreads threads) {
    ManagedChannel channel =
        builder(address, InsecureChannelCredentials.create(), threads.eventLoops())
            .directExecutor()
            .build();
    threads.add(channel);
    return new RpcChannel(channel, threads::forgetEnded);
  }

  private static NettyChannelBuilder builder(
      Address address, ChannelCredentials credentials, EventLoopGroup eventLoops) {
    return NettyChannelBuilder.forAddress(address.host(), address.port(), credentials)
        .eventLoopGroup(eventLoops)
        .channelType(NioSocketChannel.class)
        .maxInboundMessageSize(RpcServer.MAX_MESSAGE_BYTES)
        .maxInboundMetadataSize(MAX_METADATA_BYTES)
        .keepAliveTime(RpcServer.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS);
  }

  /** The channel to make stubs from. */
  public Channel channel() {
    return channel;
  }

  /**
   * Connects with the next call, also while gRPC pauses after failed attempts: its pauses grow to
   * minutes, too long for a caller who knows that the server comes back and has pauses of its own.
   */
  public void connectNow() {
    channel.resetConnectBackoff();
  }

  /** Ends what still runs on this connection. */
  @Override
  public void close() {
    channel.shutdownNow();
    endThreads.run();
  }

  // What the channel still does, such as to resolve its address once more, needs its threads.
  static void awaitEnd(ManagedChannel channel) {
    try {
      channel.awaitTermination(END_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
