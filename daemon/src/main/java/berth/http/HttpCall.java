package berth.http;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelPromise;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.QueryStringDecoder;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One request, and the one answer to it. Any thread may answer; the first answer counts. */
public final class HttpCall {
  private static final Logger log = LoggerFactory.getLogger(HttpCall.class);

  // A page of ours loads nothing from elsewhere, runs no script that is not a file of its own, and
  // is shown in nobody's frame.
  private static final Map<String, String> SECURITY_HEADERS =
      Map.of(
          "Content-Security-Policy",
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
              + " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
              + " frame-ancestors 'none'",
          "X-Content-Type-Options",
          "nosniff",
          "X-Frame-Options",
          "DENY",
          "Referrer-Policy",
          "no-referrer",
          "Cross-Origin-Resource-Policy",
          "same-origin",
          "Cross-Origin-Opener-Policy",
          "same-origin",
          "Permissions-Policy",
          "camera=(), microphone=(), geolocation=()");

  private final HttpConnection connection;
  private final Channel channel;
  private final HttpHeaders headers;
  private final QueryStringDecoder target;
  private final Map<String, String> parameters;
  private final boolean onlyHead;
  private final boolean keepAlive;
  private final AtomicBoolean answered = new AtomicBoolean();

  HttpCall(
      HttpConnection connection,
      Channel channel,
      HttpHeaders headers,
      QueryStringDecoder target,
      Map<String, String> parameters,
      boolean onlyHead,
      boolean keepAlive) {
    this.connection = connection;
    this.channel = channel;
    this.headers = headers;
    this.target = target;
    this.parameters = parameters;
    this.onlyHead = onlyHead;
    this.keepAlive = keepAlive;
  }

  /** The path without its query, decoded. */
  public String path() {
    return target.path();
  }

  /** What stands in the path where the route has {@code {name}}. */
  public String parameter(String name) {
    return Optional.ofNullable(parameters.get(name)).orElseThrow();
  }

  /**
   * The first value of a name in the query.
   *
   * @throws BerthException if the query cannot be read
   */
  public Optional<String> query(String name) {
    try {
      return target.parameters().getOrDefault(name, List.of()).stream().findFirst();
    } catch (IllegalArgumentException e) {
      throw new BerthException(Reason.INVALID, "the query cannot be read: " + e.getMessage(), e);
    }
  }

  public Optional<String> header(String name) {
    return Optional.ofNullable(headers.get(name));
  }

  /** The address that the call comes from, without its port. */
  public String from() {
    return channel.remoteAddress() instanceof InetSocketAddress internet
        ? internet.getAddress().getHostAddress()
        : "?";
  }

  /** Answers. */
  public void reply(HttpReply reply) {
    if (!answered.compareAndSet(false, true)) {
      return;
    }
    ByteBuf body = Unpooled.wrappedBuffer(reply.body());
    HttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(reply.status()), body);
    addHeaders(response.headers(), reply.contentType());
    response.headers().set(HttpHeaderNames.CONTENT_LENGTH, reply.body().length);
    reply.headers().forEach(response.headers()::set);
    if (!keepAlive) {
      response.headers().set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
    }
    // Listened to before it is sent: the next request may come before this thread goes on.
    ChannelPromise sending = channel.newPromise();
    sending.addListener(
        sent -> {
          connection.answered(channel);
          if (!keepAlive) {
            channel.close();
          }
        });
    channel.writeAndFlush(response, sending);
  }

  /** Answers with the status of a failure; of one that nobody expects only that it happened. */
  public void fail(Throwable failure) {
    if (failure instanceof BerthException expected && expected.reason() != Reason.INTERNAL) {
      reply(HttpReply.error(status(expected.reason()), expected.getMessage()));
    } else {
      log.error("{} failed", path(), failure);
      reply(HttpReply.error(500, "internal error; see the server's log"));
    }
  }

  /**
   * Answers with a stream of events, which begins at once and stays open until one side ends it.
   */
  public EventStream events() {
    if (!answered.compareAndSet(false, true)) {
      throw new IllegalStateException("answered already");
    }
    HttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
    addHeaders(response.headers(), "text/event-stream; charset=utf-8");
    response.headers().set(HttpHeaderNames.TRANSFER_ENCODING, HttpHeaderValues.CHUNKED);
    // Else a proxy would keep events back until it has many.
    response.headers().set("X-Accel-Buffering", "no");
    var sent = channel.writeAndFlush(response);
    if (onlyHead) {
      sent.addListener(done -> channel.close());
    } else {
      connection.streams();
    }
    return new EventStream(connection, channel);
  }

  private static void addHeaders(HttpHeaders headers, String contentType) {
    headers.set(HttpHeaderNames.CONTENT_TYPE, contentType);
    headers.set(HttpHeaderNames.CACHE_CONTROL, "no-store");
    SECURITY_HEADERS.forEach(headers::set);
  }

  private static int status(Reason reason) {
    return switch (reason) {
      case INVALID -> 400;
      case UNAUTHENTICATED -> 401;
      case DENIED -> 403;
      case NOT_FOUND -> 404;
      case ALREADY_EXISTS, CONFLICT -> 409;
      case EXHAUSTED -> 429;
      case UNSUPPORTED -> 501;
      case UNAVAILABLE, CANCELLED -> 503;
      case TIMED_OUT -> 504;
      case INTERNAL -> 500;
    };
  }
}
