package berth.registry.discovery;

import berth.discovery.Datagrams;
import berth.registry.discovery.Unanswered.Why;
import berth.v1.DiscoveryAnswer;
import berth.v1.DiscoveryQuery;
import com.google.protobuf.InvalidProtocolBufferException;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.socket.DatagramPacket;
import java.net.InetSocketAddress;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers queries and nothing else. The answer is never longer than the query, so that nobody can
 * use a registry to send much to a third party.
 */
final class QueryHandler extends SimpleChannelInboundHandler<DatagramPacket> {
  private static final Logger log = LoggerFactory.getLogger(DiscoveryResponder.class);

  private final DiscoveryAnswer answer;
  private final Channel replies;
  private final AnswerLimit limit = new AnswerLimit(System::nanoTime);
  private final Unanswered unanswered = new Unanswered(System::nanoTime);

  /**
   * @param answer without the nonce
   * @param replies sends the answers; on the same event loop
   */
  QueryHandler(DiscoveryAnswer answer, Channel replies) {
    this.answer = answer;
    this.replies = replies;
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, DatagramPacket packet) {
    InetSocketAddress source = packet.sender();
    ByteBuf content = packet.content();
    int length = content.readableBytes();
    if (length > Datagrams.MAX_QUERY_BYTES || source.getPort() == 0) {
      leave(Why.NO_QUERY, source);
      return;
    }
    DiscoveryQuery query;
    try {
      query = DiscoveryQuery.parseFrom(ByteBufUtil.getBytes(content));
    } catch (InvalidProtocolBufferException e) {
      leave(Why.NO_QUERY, source);
      return;
    }
    byte[] reply = answer.toBuilder().setNonce(query.getNonce()).build().toByteArray();
    if (!Datagrams.isQuery(query) || length < reply.length) {
      leave(Why.NO_QUERY, source);
    } else if (!limit.allows(source.getAddress())) {
      leave(Why.TOO_MANY, source);
    } else if (!replies.isWritable()) {
      leave(Why.NOT_SENT, source);
    } else {
      send(reply, source);
    }
  }

  private void send(byte[] reply, InetSocketAddress target) {
    replies
        .write(new DatagramPacket(Unpooled.wrappedBuffer(reply), target))
        .addListener(
            sent -> {
              if (!sent.isSuccess()) {
                leave(Why.NOT_SENT, target);
              }
            });
  }

  @Override
  public void channelReadComplete(ChannelHandlerContext context) {
    replies.flush();
  }

  /** What fails here fails for one datagram; the next may be better. */
  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    leave(Why.FAILED, cause);
  }

  private void leave(Why why, Object about) {
    unanswered.add(why, about).ifPresent(log::info);
  }

  Unanswered unanswered() {
    return unanswered;
  }

  AnswerLimit limit() {
    return limit;
  }
}
