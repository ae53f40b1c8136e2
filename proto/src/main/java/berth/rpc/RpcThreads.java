package berth.rpc;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.TimeUnit;

/** Threads that serve any number of connections, for those who have hundreds. */
public final class RpcThreads implements AutoCloseable {
  private final EventLoopGroup eventLoops;

  public RpcThreads(String name, int count) {
    eventLoops =
        new MultiThreadIoEventLoopGroup(
            count, new DefaultThreadFactory(name, true), NioIoHandler.newFactory());
  }

  EventLoopGroup eventLoops() {
    return eventLoops;
  }

  /** To be called after the connections are closed. */
  @Override
  public void close() {
    eventLoops.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly(1, TimeUnit.SECONDS);
  }
}
