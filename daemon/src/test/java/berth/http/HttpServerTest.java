package berth.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.command.DaemonOptions;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class HttpServerTest {
  private static final Address ANY_PORT = new Address("127.0.0.1", 0);

  private final LinkedBlockingQueue<EventStream> streams = new LinkedBlockingQueue<>();
  private final CompletableFuture<Void> gone = new CompletableFuture<>();
  private final CountDownLatch blocked = new CountDownLatch(1);
  private final HttpClient client = HttpClient.newHttpClient();
  private final HttpServer server =
      HttpServer.listenOn(ANY_PORT)
          .get("/", call -> call.reply(HttpReply.text(200, "front")))
          .get(
              "/runs/{run}/output",
              call ->
                  call.reply(
                      HttpReply.text(
                          200,
                          call.parameter("run") + " from " + call.query("from").orElse("start"))))
          .post("/runs/{run}/cancel", call -> call.reply(HttpReply.json("{}")))
          .get(
              "/refused",
              call -> {
                throw new BerthException(Reason.NOT_FOUND, "no run \"x\"\n");
              })
          .get(
              "/broken",
              call -> {
                throw new IOException("secret");
              })
          .get("/late", call -> CompletableFuture.runAsync(() -> call.reply(answer(blocked))))
          .get("/events", this::stream)
          .start();

  @AfterEach
  void close() {
    blocked.countDown();
    server.close();
  }

  private static HttpReply answer(CountDownLatch blocked) {
    try {
      blocked.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
    return HttpReply.text(200, "late");
  }

  private void stream(HttpCall call) {
    EventStream stream = call.events();
    stream.onEnd(() -> gone.complete(null));
    streams.add(stream);
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create("http://" + server.address() + path));
  }

  private HttpResponse<String> get(String path) throws Exception {
    return client.send(request(path).build(), HttpResponse.BodyHandlers.ofString());
  }

  @Test
  void routesKnowThePartsOfTheirPaths() throws Exception {
    assertThat(get("/").body()).isEqualTo("front\n");
    assertThat(get("/runs/run-1/output").body()).isEqualTo("run-1 from start\n");
    assertThat(get("/runs/a%2Fb+c/output?from=7").body()).isEqualTo("a/b+c from 7\n");
  }

  @Test
  void whatIsNotThereIsSaidInOneSentence() throws Exception {
    assertThat(get("/nothing").statusCode()).isEqualTo(404);
    assertThat(get("/nothing").body()).isEqualTo("{\"error\":\"there is no /nothing\"}");
    assertThat(get("/runs/x/cancel").statusCode()).isEqualTo(405);
    assertThat(raw("GET /runs/%zz/output HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        .startsWith("HTTP/1.1 400 ");
    assertThat(get("/../../etc/passwd").statusCode()).isEqualTo(404);
  }

  @Test
  void failuresAreToldAsFarAsTheyAreExpected() throws Exception {
    assertThat(get("/refused").statusCode()).isEqualTo(404);
    assertThat(get("/refused").body()).isEqualTo("{\"error\":\"no run \\\"x\\\"\\u000a\"}");
    assertThat(get("/broken").statusCode()).isEqualTo(500);
    assertThat(get("/broken").body()).doesNotContain("secret");
  }

  @Test
  void everyAnswerForbidsWhatNoPageOfOursNeeds() throws Exception {
    Map<String, List<String>> headers = get("/nothing").headers().map();

    assertThat(headers.get("content-security-policy").get(0))
        .startsWith("default-src 'none'; script-src 'self';")
        .contains("frame-ancestors 'none'")
        .doesNotContain("unsafe");
    assertThat(headers).containsKeys("x-content-type-options", "x-frame-options");
  }

  @Test
  void whoAsksForTheHeadGetsNoBody() throws Exception {
    HttpResponse<String> head =
        client.send(
            request("/").method("HEAD", HttpRequest.BodyPublishers.noBody()).build(),
            HttpResponse.BodyHandlers.ofString());

    assertThat(head.statusCode()).isEqualTo(200);
    assertThat(head.headers().firstValue("content-length")).contains("6");
  }

  @Test
  void aNameThatLeadsHereByTheWillOfOthersIsRefused() throws Exception {
    assertThat(raw("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"))
        .startsWith("HTTP/1.1 403 ")
        .contains("unknown Host header 'evil.example'");
    assertThat(raw("GET / HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n"))
        .startsWith("HTTP/1.1 200 ");
    assertThat(raw("GET / HTTP/1.0\r\n\r\n")).startsWith("HTTP/1.1 403 ");
  }

  @Test
  void namesAreKnownByTheMachineAndByWhatPeopleSay() {
    KnownNames onLoopback = new KnownNames(new Address("127.0.0.1", 0), List.of("GPUs.lab"));
    for (String host : List.of("localhost:1", "127.0.0.1", "[::1]:18880", "gpus.lab:80")) {
      assertThat(onLoopback.contains(host)).as(host).isTrue();
    }
    for (String host : List.of("", "10.0.0.7", "127.evil.example", "localhost.evil.example")) {
      assertThat(onLoopback.contains(host)).as(host).isFalse();
    }
    KnownNames everywhere = new KnownNames(new Address("0.0.0.0", 0), List.of());
    for (String host : List.of("10.0.0.7:18880", "[fe80::1]:18880", DaemonOptions.hostName())) {
      assertThat(everywhere.contains(host)).as(host).isTrue();
    }
    for (String host : List.of("evil.example", "1.2.3.4.evil.example", "")) {
      assertThat(everywhere.contains(host)).as(host).isFalse();
    }
  }

  @Test
  void aQueryThatCannotBeReadIsTheCallersFault() throws Exception {
    assertThat(
            raw(
                "GET /runs/x/output?from=%zz HTTP/1.1\r\nHost: localhost\r\n"
                    + "Connection: close\r\n\r\n"))
        .startsWith("HTTP/1.1 400 ");
  }

  @Test
  void whoAsksForTheHeadOfEventsGetsThatAndTheEnd() throws Exception {
    assertThat(raw("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .startsWith("HTTP/1.1 200 ")
        .endsWith("\r\n\r\n");
    gone.get();
  }

  @Test
  void whatIsNoHttpIsRefused() throws Exception {
    assertThat(raw("hello\r\n\r\n")).startsWith("HTTP/1.1 400 ");
    assertThat(
            raw(
                "POST /runs/x/cancel HTTP/1.1\r\nHost: localhost\r\n"
                    + "Connection: close\r\nContent-Length: 99999999\r\n\r\n"))
        .startsWith("HTTP/1.1 413 ");
  }

  private String raw(String request) throws IOException {
    try (Socket socket = new Socket(server.address().host(), server.address().port())) {
      socket.getOutputStream().write(request.getBytes(StandardCharsets.UTF_8));
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  @Test
  void anAnswerMayComeLaterWhileOthersAreServed() throws Exception {
    CompletableFuture<HttpResponse<String>> late =
        client.sendAsync(request("/late").build(), HttpResponse.BodyHandlers.ofString());
    assertThat(get("/").statusCode()).isEqualTo(200);
    assertThat(late).isNotDone();
    blocked.countDown();

    assertThat(late.get().body()).isEqualTo("late\n");
  }

  @Test
  void eventsArriveOneByOneUntilTheEnd() throws Exception {
    HttpResponse<InputStream> response =
        client.send(request("/events").build(), HttpResponse.BodyHandlers.ofInputStream());
    assertThat(response.headers().firstValue("content-type").orElseThrow())
        .startsWith("text/event-stream");
    EventStream stream = streams.take();
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8));
    stream.send(EventStream.event("sample", "{}"));
    assertThat(lines.readLine()).isEqualTo("event: sample");
    assertThat(lines.readLine()).isEqualTo("data: {}");
    assertThat(lines.readLine()).isEmpty();
    stream.send(EventStream.event("output", "17", "\"ä\""));
    assertThat(lines.readLine()).isEqualTo("id: 17");
    assertThat(lines.readLine()).isEqualTo("event: output");
    assertThat(lines.readLine()).isEqualTo("data: \"ä\"");
    stream.end();

    assertThat(lines.readLine()).isEmpty();
    assertThat(lines.readLine()).isNull();
    gone.get();
  }

  @Test
  void aReaderThatGoesIsNoticedAndOneThatStopsReadingToo() throws Exception {
    try (Socket socket = new Socket(server.address().host(), server.address().port())) {
      socket
          .getOutputStream()
          .write(
              "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n".getBytes(StandardCharsets.UTF_8));
      EventStream stream = streams.take();
      CountDownLatch caughtUp = new CountDownLatch(1);
      stream.onReady(caughtUp::countDown);
      byte[] much = EventStream.event("much", "x".repeat(1 << 20));
      while (stream.isReady()) {
        stream.send(much);
      }
      InputStream in = socket.getInputStream();
      while (!stream.isReady()) {
        assertThat(in.read(new byte[1 << 20])).isPositive();
      }
      caughtUp.await();
      assertThat(stream.isOpen()).isTrue();
    }
    gone.get();
  }

  @Test
  void onlyLoopbackIsServedWithoutBeingTold() {
    assertThatThrownBy(() -> HttpServer.listenOn(new Address("0.0.0.0", 0)).start())
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("--insecure");
    HttpServer.listenOn(new Address("0.0.0.0", 0)).insecureBeyondLoopback(true).start().close();
  }

  @Test
  void aTakenPortIsOneSentence() {
    assertThatThrownBy(() -> HttpServer.listenOn(server.address()).start())
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
        .hasMessageContaining("cannot listen on 127.0.0.1:");
  }
}
