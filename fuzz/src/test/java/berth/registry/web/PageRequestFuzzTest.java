package berth.registry.web;

import static org.assertj.core.api.Assertions.assertThat;

import berth.http.Conversation;
import berth.http.HttpServer;
import berth.metrics.Metrics;
import berth.registry.directory.DirectoryMetrics;
import berth.registry.directory.LeaseTerms;
import berth.registry.directory.MemoryDirectory;
import berth.rpc.Address;
import berth.rpc.Vitals;
import berth.v1.GpuInfo;
import berth.v1.RegisterRequest;
import berth.v1.ServerInfo;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.gson.JsonParser;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/** What browsers ask of the page of a registry that knows one server, which nobody can call. */
class PageRequestFuzzTest {
  // As long as nobody lingers, no server is watched.
  private static final FleetBroadcast.Timing TIMING =
      new FleetBroadcast.Timing(
          Duration.ofDays(1), Duration.ZERO, Duration.ofDays(1), Duration.ofDays(1));
  private static final int NO_SERVER_THERE = 503;

  private static MemoryDirectory directory;
  private static RegistryPage page;
  private static HttpServer.Builder server;

  @BeforeAll
  static void open() {
    directory =
        new MemoryDirectory(
            new LeaseTerms(Duration.ofDays(1), 10),
            new DirectoryMetrics(new Metrics()),
            new Vitals());
    directory.register(
        RegisterRequest.newBuilder()
            .setInstance("i1")
            .setInfo(
                ServerInfo.newBuilder()
                    .setName("gpu1")
                    .setAddress("127.0.0.1:1")
                    .addGpus(GpuInfo.newBuilder().setUuid("GPU-a").setModel("NVIDIA A100")))
            .build());
    page = new RegistryPage("lab", directory::roster, true, TIMING, new Here(), new Here());
    server = HttpServer.listenOn(new Address("127.0.0.1", 0));
    page.addTo(server);
  }

  @AfterAll
  static void close() {
    page.close();
    directory.close();
  }

  static Stream<byte[]> seeds() {
    return Stream.of(
            "GET / HTTP/1.1\r\nHost: berth\r\nIf-None-Match: \"0123456789ab\"\r\n\r\n",
            "GET /page/dom.js HTTP/1.1\r\nHost: berth\r\n\r\n"
                + "HEAD /page/..%2findex.html HTTP/1.1\r\nHost: berth\r\n\r\n",
            "GET /api/wall HTTP/1.1\r\nHost: berth\r\n\r\n",
            "HEAD /api/wall HTTP/1.1\r\nHost: berth\r\n\r\n",
            "GET /api/servers/gpu1/history HTTP/1.1\r\nHost: berth\r\n\r\n",
            "GET /api/servers/gpu1/clusters/c-0000000001 HTTP/1.1\r\nHost: berth\r\n\r\n",
            "GET /api/servers/gpu1/runs/run-0000000001/output?from=12 HTTP/1.1\r\n"
                + "Host: berth\r\n\r\n",
            "GET /api/servers/gpu2/runs/run-0000000001/output HTTP/1.1\r\nHost: berth\r\n"
                + "Last-Event-ID: 9223372036854775807\r\n\r\n",
            "POST /api/servers/gpu1/runs/run-0000000001/cancel HTTP/1.1\r\nHost: berth\r\n"
                + "X-Berth-Page: 1\r\nContent-Length: 2\r\n\r\n{}",
            "POST /api/servers/gpu1/clusters/c%2F1/cancel HTTP/1.1\r\nHost: berth\r\n"
                + "Origin: http://elsewhere.example\r\nContent-Length: 0\r\n\r\n")
        .map(text -> text.getBytes(StandardCharsets.ISO_8859_1));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredOnceAndReachesAServerOnlyFromThePage(byte[] data) {
    Conversation conversation = Conversation.of(server, data);
    List<Conversation.Request> requests = conversation.requests();
    List<Conversation.Answer> answers = conversation.answers();
    assertThat(answers).hasSameSizeAs(requests);
    for (int i = 0; i < answers.size(); i++) {
      check(requests.get(i), answers.get(i));
    }
  }

  private static void check(Conversation.Request request, Conversation.Answer answer) {
    assertThat(answer.status() < 500 || answer.status() == NO_SERVER_THERE)
        .as("%s: %s", answer.status(), answer.body())
        .isTrue();
    if (answer.status() < 200) {
      return;
    }
    if (request.method().equals("POST")) {
      assertThat(answer.status()).isNotEqualTo(200);
      assertThat(answer.status() != NO_SERVER_THERE || request.hasHeader("X-Berth-Page"))
          .as("a server was called for a page of somebody else")
          .isTrue();
    }
    assertThat(answer.header("Content-Security-Policy")).isPresent();
    if (answer.is("json")) {
      assertThat(JsonParser.parseString(answer.body()).isJsonObject()).isTrue();
    } else if (answer.is("event-stream")) {
      assertThat(PageEvents.read(answer.body()))
          .extracting(PageEvents.PageEvent::name)
          .isSubsetOf("hello", "servers", "failed");
    }
  }

  /** Does at once, in the thread of the caller, what it is given; nothing again, nothing later. */
  private static final class Here extends ScheduledThreadPoolExecutor {
    Here() {
      super(0);
    }

    @Override
    public void execute(Runnable task) {
      task.run();
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(
        Runnable task, long first, long period, TimeUnit unit) {
      task.run();
      return null;
    }
  }
}
