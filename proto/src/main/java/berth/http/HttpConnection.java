package berth.http;

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.timeout.IdleStateEvent;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The requests of one connection, one after the other. Lives in the thread of its connection. */
final class HttpConnection extends SimpleChannelInboundHandler<FullHttpRequest> {
  private static final Logger log = LoggerFactory.getLogger(HttpConnection.class);

  private static final Pattern LOOPBACK =
      Pattern.compile("(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?", Pattern.CASE_INSENSITIVE);

  private final List<Route> routes;
  private final boolean onlyThisMachine;
  private final Executor threads;
  private volatile Runnable onReady = () -> {};
  private boolean busy;

  HttpConnection(List<Route> routes, boolean onlyThisMachine, Executor threads) {
    this.routes = routes;
    this.onlyThisMachine = onlyThisMachine;
    this.threads = threads;
  }

  void onReady(Runnable action) {
    onReady = action;
  }

  /** Takes the next request. To be called in the thread of the connection. */
  void answered() {
    busy = false;
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
    if (busy) {
      // Nobody of today sends the next request before the answer to the last.
      context.close();
      return;
    }
    busy = true;
    QueryStringDecoder target = new QueryStringDecoder(request.uri());
    HttpCall refused = call(context, request, target, Map.of());
    if (!request.decoderResult().isSuccess()) {
      refused.reply(HttpReply.error(400, "this is not HTTP"));
      return;
    }
    if (isFromElsewhere(request)) {
      refused.reply(
          HttpReply.error(
              403,
              "this server listens on loopback and answers to localhost only, not to '"
                  + request.headers().get(HttpHeaderNames.HOST)
                  + "'"));
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

  // A page of somebody else may have a name that leads to this machine, and would then read ours as
  // its own. It cannot change the name that the browser tells.
  private boolean isFromElsewhere(FullHttpRequest request) {
    String host = request.headers().get(HttpHeaderNames.HOST, "");
    return onlyThisMachine && !LOOPBACK.matcher(host).matches();
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
        HttpUtil.isKeepAlive(request) && request.decoderResult().isSuccess());
  }

  private void answer(Route route, HttpCall call) {
    try {
      threads.execute(
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
    if (event instanceof IdleStateEvent) {
      context.close();
    }
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    log.debug("a connection broke", cause);
    context.close();
  }
}
