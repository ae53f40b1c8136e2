package berth.command;

import berth.http.HttpCall;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.metrics.Metrics;
import berth.metrics.Scrape;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Option;

/** Where a daemon shows itself to people and to their monitoring. */
public final class HttpOptions {
  private static final Logger log = LoggerFactory.getLogger(HttpOptions.class);
  private static final String NONE = "none";

  private final int defaultPort;

  @Option(
      names = "--http",
      paramLabel = "HOST:PORT|none",
      description =
          "HTTP address for /metrics, /healthz, /readyz and the registry's web page; 'none' to"
              + " disable (default: the host of --listen, port 18882 for berthd, 18880 for"
              + " berth-registry).")
  private Optional<String> http = Optional.empty();

  @Option(
      names = "--http-name",
      paramLabel = "NAME",
      split = ",",
      description =
          "Additional Host header to accept, for example gpus.example.org; repeatable (default: the"
              + " machine's names and addresses).")
  private List<String> httpNames = List.of();

  public HttpOptions(int defaultPort) {
    this.defaultPort = defaultPort;
  }

  /**
   * Serves HTTP, if somebody wants that.
   *
   * @param daemon says where, unless there is an option of its own for that
   * @param vitals what {@code /healthz} tells of
   * @param routes adds what is served beside metrics and health
   * @return null if nothing is served: a second daemon of a machine does not fail for want of a
   *     port that nobody has asked for
   * @throws BerthException if the address that was asked for cannot be had
   */
  public HttpServer serve(
      DaemonOptions daemon, Metrics metrics, Vitals vitals, Consumer<HttpServer.Builder> routes) {
    if (http.filter(NONE::equals).isPresent()) {
      return null;
    }
    Address calls = daemon.address();
    int port = calls.port() == 0 ? 0 : defaultPort;
    Address address =
        http.map(text -> Address.parse(text, defaultPort))
            .orElseGet(() -> new Address(calls.host(), port));
    HttpServer.Builder server =
        HttpServer.listenOn(address)
            .insecureBeyondLoopback(daemon.insecure())
            .names(httpNames)
            .vital("/metrics", call -> call.reply(scrape(metrics, call)))
            .vital("/healthz", call -> call.reply(health(vitals)));
    routes.accept(server);
    try {
      return server.start();
    } catch (BerthException e) {
      if (http.isPresent() || e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      log.warn("HTTP is disabled: {}; set --http to another address", e.getMessage());
      return null;
    }
  }

  private static HttpReply health(Vitals vitals) {
    Optional<String> problem = vitals.problem();
    return HttpReply.text(problem.isEmpty() ? 200 : 503, problem.orElse("ok"));
  }

  private static HttpReply scrape(Metrics metrics, HttpCall call) {
    Scrape scrape = metrics.render(call.header("Accept").orElse(""));
    return new HttpReply(200, scrape.contentType(), scrape.body(), Map.of());
  }
}
