package berth.rpc;

import io.netty.channel.Channel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import java.net.SocketAddress;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Takes connections as long as there are not too many, and ends the others at once. */
final class LimitedServerChannel extends NioServerSocketChannel {
  private static final Logger log = LoggerFactory.getLogger(LimitedServerChannel.class);
  private static final long BETWEEN_WARNINGS_NANOS = 60_000_000_000L;

  private final ClientCount connections;
  // Of the event loop alone.
  private long warned = System.nanoTime() - BETWEEN_WARNINGS_NANOS;

  LimitedServerChannel(ClientCount connections) {
    this.connections = connections;
  }

  @Override
  protected int doReadMessages(List<Object> accepted) throws Exception {
    int count = super.doReadMessages(accepted);
    if (count > 0) {
      Channel connection = (Channel) accepted.get(accepted.size() - 1);
      SocketAddress client = connection.remoteAddress();
      Optional<String> refusal = connections.add(client);
      if (refusal.isEmpty()) {
        connection.closeFuture().addListener(closed -> connections.remove(client));
      } else {
        accepted.remove(accepted.size() - 1);
        connection.unsafe().closeForcibly();
        warn(client, refusal.get());
      }
    }
    // The count, also of one that was refused: else the next one would not be looked at.
    return count;
  }

  private void warn(SocketAddress client, String why) {
    long now = System.nanoTime();
    if (now - warned >= BETWEEN_WARNINGS_NANOS) {
      warned = now;
      log.warn(
          "refusing connections, such as one from {}: {}; see --max-connections and"
              + " --max-connections-per-client",
          client,
          why);
    }
  }
}
