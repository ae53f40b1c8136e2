package berth.http;

import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.timeout.IdleState;
import io.netty.handler.timeout.IdleStateEvent;
import io.netty.util.concurrent.Future;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The requests of one connection, one after the other. Lives in the thread of its connection. */
final class HttpConnection extends SimpleChannelInboundHandler<FullHttpRequest> {
  private static final Logger log = LoggerFactory.getLogger(HttpConnection.class);

  private static final byte[] BEAT = ": beat\n\n".getBytes(StandardCharsets.UTF_8);

  private final List<Route> routes;
  private final KnownNames names;
  private final Executor threads;
  private final Executor vitalThreads;
  private final boolean spare;
  private final Duration requestTime;
  private Future<?> deadline;
  private volatile Runnable onReady = () -> {};
  private volatile boolean streaming;
  private boolean busy;

  /**
   * @param vitalThreads serve what is vital
   * @param spare whether there are too many connections, so that this one is for that only
   * @param requestTime how long the next request may take to arrive, whole
   */
  HttpConnection(
      List<Route> routes,
      KnownNames names,
      Executor threads,
      Executor vitalThreads,
      boolean spare,
      Duration requestTime) {
    this.routes = routes;
    this.names = names;
    this.threads = threads;
    this.vitalThreads = vitalThreads;
    this.spare = spare;
    this.requestTime = requestTime;
  }

  @Override
  public void handlerAdded(ChannelHandlerContext context) {
    awaitRequest(context.channel());
  }

  // Not from the last byte that came: who sends one now and then would keep a connection for ever.
  private void awaitRequest(Channel channel) {
    deadline =
        channel
            .eventLoop()
            .schedule(
                () -> {
                  channel.close();
                },
                requestTime.toMillis(),
                TimeUnit.MILLISECONDS);
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    deadline.cancel(false);
    context.fireChannelInactive();
  }

  void onReady(Runnable action) {
    onReady = action;
  }

  /** From now on the reader is sent events. */
  void streams() {
    streaming = true;
  }

  /** Takes the next request. To be called in the thread of the connection. */
  void answered(Channel channel) {
    busy = false;
    if (channel.isActive()) {
      awaitRequest(channel);
    }
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
    if (busy || !context.channel().isActive()) {
      // No client of today sends the next request before the answer to the last. One that came
      // together with a last request is decoded even though that has closed the connection.
      context.close();
      return;
    }
    busy = true;
    deadline.cancel(false);
    QueryStringDecoder target = new QueryStringDecoder(request.uri());
    HttpCall refused = call(context, request, target, Map.of());
    if (!request.decoderResult().isSuccess()) {
      refused.reply(HttpReply.error(400, "this is not HTTP"));
      return;
    }
    String host = request.headers().get(HttpHeaderNames.HOST, "");
    if (!names.contains(host)) {
      refused.reply(HttpReply.error(403, "unknown Host header '" + host + "'; see --http-name"));
      return;
    }
    List<String> path;
    try {
      path = decoded(target);
    } catch (IllegalArgumentException e) {
      refused.reply(HttpReply.error(400, "the path cannot be read: " + e.getMessage()));
      return;
    }
    boolean known = false;
    for (Route route : routes) {
      Optional<Map<String, String>> parameters = route.match(path);
      if (parameters.isPresent()) {
        known = true;
        if (route.method().equals(asked(request.method()))) {
          answer(route, call(context, request, target, parameters.get()));
          return;
        }
      }
    }
    refused.reply(
        known
            ? HttpReply.error(405, request.method() + " is not for " + target.rawPath())
            : HttpReply.error(404, "there is no " + target.rawPath()));
  }

  // Parts are told apart before they are decoded: an encoded slash is no slash.
  private static List<String> decoded(QueryStringDecoder target) {
    String path = target.rawPath();
    return Route.parts(path.startsWith("/") ? path : "/" + path).stream()
        .map(part -> QueryStringDecoder.decodeComponent(part.replace("+", "%2B")))
        .toList();
  }

  // Who asks only for the head gets it: the codec leaves out the body.
  private static HttpMethod asked(HttpMethod method) {
    return method.equals(HttpMethod.HEAD) ? HttpMethod.GET : method;
  }

  private HttpCall call(
      ChannelHandlerContext context,
      FullHttpRequest request,
      QueryStringDecoder target,
      Map<String, String> parameters) {
    return new HttpCall(
        this,
        context.channel(),
        request.headers(),
        target,
        parameters,
        request.method().equals(HttpMethod.HEAD),
        !spare && HttpUtil.isKeepAlive(request) && request.decoderResult().isSuccess());
  }

  private void answer(Route route, HttpCall call) {
    if (spare && !route.isVital()) {
      call.reply(HttpReply.error(503, "too many connections; try again"));
      return;
    }
    try {
      (route.isVital() ? vitalThreads : threads)
          .execute(
              () -> {
                try {
                  route.handler().handle(call);
                } catch (Exception | Error e) {
                  call.fail(e);
                }
              });
    } catch (RejectedExecutionException e) {
      call.reply(HttpReply.error(503, "too many calls at once; try again"));
    }
  }

  @Override
  public void channelWritabilityChanged(ChannelHandlerContext context) {
    if (context.channel().isWritable()) {
      onReady.run();
    }
  }

  @Override
  public void userEventTriggered(ChannelHandlerContext context, Object event) {
    if (event instanceof IdleStateEvent idle) {
      if (idle.state() == IdleState.ALL_IDLE) {
        context.close();
      } else if (streaming) {
        context.writeAndFlush(new DefaultHttpContent(Unpooled.wrappedBuffer(BEAT)));
      }
    }
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    log.debug("a connection broke", cause);
    context.close();
  }
}
