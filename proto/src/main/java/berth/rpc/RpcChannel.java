package berth.rpc;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import java.util.concurrent.TimeUnit;

/**
 * A connection to one server, made on the first call and made again whenever it broke. Every client
 * of Berth is made here. Any thread may use it.
 */
public final class RpcChannel implements AutoCloseable {
  // Enough for the longest message of a failure, each character of which may take nine bytes.
  private static final int MAX_METADATA_BYTES = 32 << 10;

  private final ManagedChannel channel;

  private RpcChannel(ManagedChannel channel) {
    this.channel = channel;
  }

  public static RpcChannel to(Address address) {
    return to(address, InsecureChannelCredentials.create());
  }

  public static RpcChannel to(Address address, ChannelCredentials credentials) {
    return new RpcChannel(
        NettyChannelBuilder.forAddress(address.host(), address.port(), credentials)
            .maxInboundMessageSize(RpcServer.MAX_MESSAGE_BYTES)
            .maxInboundMetadataSize(MAX_METADATA_BYTES)
            .keepAliveTime(RpcServer.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
            .build());
  }

  /** The channel to make stubs from. */
  public Channel channel() {
    return channel;
  }

  /** Ends what still runs on this connection. */
  @Override
  public void close() {
    channel.shutdownNow();
  }
}
