package berth.rpc;

import io.grpc.ManagedChannel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** Threads that serve any number of connections, for those who have hundreds. */
public final class RpcThreads implements AutoCloseable {
  private final EventLoopGroup eventLoops;
  private final Set<ManagedChannel> channels = ConcurrentHashMap.newKeySet();

  public RpcThreads(String name, int count) {
    eventLoops =
        new MultiThreadIoEventLoopGroup(
            count, new DefaultThreadFactory(name, true), NioIoHandler.newFactory());
  }

  void add(ManagedChannel channel) {
    channels.add(channel);
  }

  void forgetEnded() {
    channels.removeIf(ManagedChannel::isTerminated);
  }

  EventLoopGroup eventLoops() {
    return eventLoops;
  }

  /** To be called after the connections are closed. */
  @Override
  public void close() {
    channels.stream().filter(ManagedChannel::isShutdown).forEach(RpcChannel::awaitEnd);
    eventLoops.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly(1, TimeUnit.SECONDS);
  }
}
