package berth.http;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.gson.JsonParser;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class HttpRequestFuzzTest {
  private static final HttpServer.Builder SERVER =
      HttpServer.listenOn(new Address("127.0.0.1", 0))
          .get("/", call -> call.reply(HttpReply.text(200, call.path())))
          .get(
              "/api/servers/{server}/runs/{run}/output",
              call ->
                  call.reply(
                      HttpReply.text(
                          200,
                          call.parameter("server")
                              + call.parameter("run")
                              + call.query("from").orElse("")
                              + call.header("Origin").orElse("")
                              + call.from())))
          .post(
              "/api/servers/{server}/cancel",
              call -> {
                throw new BerthException(
                    Reason.NOT_FOUND, "there is no '" + call.parameter("server") + "'");
              });

  static Stream<byte[]> seeds() {
    return Stream.of(
            "GET / HTTP/1.1\r\nHost: localhost:18810\r\n\r\n",
            "HEAD /?a=%20b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            "GET /api/servers/gpu%201/runs/r-1/output?from=12&x HTTP/1.1\r\nHost: berth\r\n"
                + "Origin: http://berth\r\n\r\n"
                + "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "POST /api/servers/%22%5C%0a/cancel HTTP/1.1\r\nHost: [::1]:80\r\n"
                + "Content-Length: 3\r\n\r\nabc",
            "POST /api/servers/a/cancel HTTP/1.1\r\nHost: berth\r\nTransfer-Encoding: chunked\r\n"
                + "Expect: 100-continue\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "GET http://berth/%zz HTTP/1.0\r\nHost: berth\r\n\r\n")
        .map(text -> text.getBytes(StandardCharsets.ISO_8859_1));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredOnceAndWithoutFailing(byte[] data) {
    Conversation conversation = Conversation.of(SERVER, data);
    assertThat(conversation.answers()).hasSameSizeAs(conversation.requests());
    for (Conversation.Answer answer : conversation.answers()) {
      assertThat(answer.status()).isBetween(100, 499);
      if (answer.is("json")) {
        JsonParser.parseString(answer.body());
      }
    }
  }
}
