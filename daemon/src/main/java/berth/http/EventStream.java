package berth.http;

import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.LastHttpContent;
import java.nio.charset.StandardCharsets;

/**
 * Server-sent events to one reader. Any thread may call, also after the end. Nothing blocks: who
 * sends much asks {@link #isReady} first, and else would fill the memory for a reader that is slow.
 * While nothing is sent, something goes to the reader now and then that it is not told of, so that
 * both sides know that the other is there.
 */
public final class EventStream {
  private final HttpConnection connection;
  private final Channel channel;

  EventStream(HttpConnection connection, Channel channel) {
    this.connection = connection;
    this.channel = channel;
  }

  /**
   * The bytes of an event, which may be sent to many.
   *
   * @param data one line, such as JSON
   */
  public static byte[] event(String name, String data) {
    return ("event: " + name + "\ndata: " + data + "\n\n").getBytes(StandardCharsets.UTF_8);
  }

  /** The same with an id, which a reader that comes back tells. */
  public static byte[] event(String name, String id, String data) {
    return ("id: " + id + "\nevent: " + name + "\ndata: " + data + "\n\n")
        .getBytes(StandardCharsets.UTF_8);
  }

  /** Whether the reader keeps up. */
  public boolean isReady() {
    return channel.isWritable();
  }

  /** Whether somebody is there. */
  public boolean isOpen() {
    return channel.isActive();
  }

  /** Runs {@code action} whenever the reader has caught up, by a thread that must not wait. */
  public void onReady(Runnable action) {
    connection.onReady(action);
  }

  /**
   * Runs {@code action} when the reader has gone or the stream has ended; at once if that is so.
   */
  public void onEnd(Runnable action) {
    channel.closeFuture().addListener(closed -> action.run());
  }

  /** Sends bytes that {@link #event} made. They are not copied. */
  public void send(byte[] event) {
    channel.writeAndFlush(new DefaultHttpContent(Unpooled.wrappedBuffer(event)));
  }

  /** Ends the stream after what was sent. */
  public void end() {
    channel.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT).addListener(sent -> channel.close());
  }
}
