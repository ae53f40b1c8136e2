package berth.http;

import berth.rpc.Address;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpServerCodec;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** What is said on a connection as {@link HttpServer} makes it, but in this thread. */
public final class Conversation {
  private static final int MAX_REQUEST_BYTES = 64 << 10;

  /** A request as it was understood. */
  public static final class Request {
    private final String method;
    private final HttpHeaders headers;

    private Request(FullHttpRequest request) {
      method = request.method().name();
      headers = request.headers().copy();
    }

    public String method() {
      return method;
    }

    public boolean hasHeader(String name) {
      return headers.contains(name);
    }
  }

  /** An answer, with all that came of it. */
  public static final class Answer {
    private final int status;
    private final HttpHeaders headers;
    private final StringBuilder body = new StringBuilder();

    private Answer(HttpResponse response) {
      status = response.status().code();
      headers = response.headers().copy();
    }

    public int status() {
      return status;
    }

    public Optional<String> header(String name) {
      return Optional.ofNullable(headers.get(name));
    }

    /** Whether its type has this word. */
    public boolean is(String type) {
      return header("Content-Type").orElse("").contains(type);
    }

    public String body() {
      return body.toString();
    }
  }

  private final List<Request> requests = new ArrayList<>();
  private final List<Answer> answers = new ArrayList<>();

  private Conversation() {}

  /** Says {@code input} to a server under the name {@code berth}, and hangs up. */
  public static Conversation of(HttpServer.Builder server, byte[] input) {
    Conversation conversation = new Conversation();
    EmbeddedChannel channel =
        new EmbeddedChannel(
            new HttpServerCodec(),
            new HttpObjectAggregator(MAX_REQUEST_BYTES, true),
            conversation.new Listener(),
            new HttpConnection(
                server.routes(),
                new KnownNames(new Address("127.0.0.1", 18810), List.of("berth")),
                Runnable::run,
                Runnable::run,
                false,
                Duration.ofMinutes(1)));
    try {
      channel.writeInbound(Unpooled.wrappedBuffer(input));
      channel.runPendingTasks();
    } finally {
      channel.finishAndReleaseAll();
    }
    return conversation;
  }

  /**
   * All but those that came after a stream of events had begun, or behind the last of the
   * connection: those are not answered.
   */
  public List<Request> requests() {
    return requests;
  }

  public List<Answer> answers() {
    return answers;
  }

  private final class Listener extends ChannelDuplexHandler {
    private boolean streaming;

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
      if (message instanceof FullHttpRequest request
          && !streaming
          && context.channel().isActive()) {
        requests.add(new Request(request));
      }
      context.fireChannelRead(message);
    }

    @Override
    public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
      if (message instanceof HttpResponse response) {
        Answer answer = new Answer(response);
        answers.add(answer);
        streaming |= answer.is("event-stream");
      }
      if (message instanceof HttpContent content) {
        answers
            .get(answers.size() - 1)
            .body
            .append(content.content().toString(StandardCharsets.UTF_8));
      }
      context.write(message, promise);
    }
  }
}
