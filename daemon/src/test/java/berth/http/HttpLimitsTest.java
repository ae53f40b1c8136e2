package berth.http;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Address;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class HttpLimitsTest {
  private final HttpServer.Builder builder =
      HttpServer.listenOn(new Address("127.0.0.1", 0))
          .get("/", call -> call.reply(HttpReply.text(200, "front")))
          .vital("/healthz", call -> call.reply(HttpReply.text(200, "ok")));

  @Test
  void whatIsVitalIsAnsweredThoughAllConnectionsAreTaken() throws Exception {
    try (HttpServer server = builder.maxConnections(2, 2).start();
        Socket first = connect(server);
        Socket second = connect(server)) {
      ask(first, "/");
      ask(second, "/");
      assertThat(first.getInputStream().read()).isEqualTo('H');
      assertThat(second.getInputStream().read()).isEqualTo('H');
      for (int i = 0; i < 20; i++) {
        // Neither is kept: all of it can be read.
        assertThat(whole(server, "/"))
            .startsWith("HTTP/1.1 503")
            .contains("too many connections; try again");
        assertThat(whole(server, "/healthz")).startsWith("HTTP/1.1 200").endsWith("ok\n");
      }
    }
  }

  @Test
  void whatIsVitalIsAnsweredThoughAllThreadsAreTaken() throws Exception {
    CountDownLatch blocked = new CountDownLatch(1);
    try (HttpServer server = builder.get("/slow", call -> blocked.await()).start()) {
      List<Socket> slow = new ArrayList<>();
      try (Socket monitoring = connect(server)) {
        for (int i = 0; i < 10; i++) {
          slow.add(connect(server));
          ask(slow.get(i), "/slow");
        }
        ask(monitoring, "/healthz");
        assertThat(monitoring.getInputStream().read()).isEqualTo('H');
      } finally {
        blocked.countDown();
        for (Socket socket : slow) {
          socket.close();
        }
      }
    }
  }

  @Test
  void whatComesBehindALastRequestIsNotCarriedOut() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    try (HttpServer server =
            builder
                .vital(
                    "/count",
                    call -> {
                      calls.incrementAndGet();
                      call.reply(HttpReply.text(200, "counted"));
                    })
                .start();
        Socket socket = connect(server)) {
      // A refusal is sent, and the connection closed, before the next request is looked at.
      String requests =
          "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
              + "GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n";
      socket.getOutputStream().write(requests.getBytes(StandardCharsets.US_ASCII));
      String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(answer).startsWith("HTTP/1.1 404").doesNotContain("counted");
      // It is answered after what was handed to the same threads before it.
      try (Socket next = connect(server)) {
        ask(next, "/healthz");
        assertThat(next.getInputStream().read()).isEqualTo('H');
      }
      assertThat(calls).hasValue(0);
    }
  }

  @Test
  void whoSendsAByteNowAndThenDoesNotKeepAConnection() throws Exception {
    try (HttpServer server = builder.requestTime(Duration.ofMillis(300)).start();
        Socket slow = connect(server)) {
      slow.setSoTimeout(20);
      boolean open = true;
      while (open) {
        try {
          slow.getOutputStream().write('G');
          open = slow.getInputStream().read() >= 0;
        } catch (SocketTimeoutException e) {
          // It is still open.
        } catch (SocketException e) {
          open = false;
        }
      }
    }
  }

  private static Socket connect(HttpServer server) throws IOException {
    return new Socket("127.0.0.1", server.address().port());
  }

  private static void ask(Socket socket, String path) throws IOException {
    String request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
  }

  private static String whole(HttpServer server, String path) throws IOException {
    try (Socket socket = connect(server)) {
      ask(socket, path);
      ByteArrayOutputStream read = new ByteArrayOutputStream();
      try {
        socket.getInputStream().transferTo(read);
      } catch (SocketException e) {
        // Who is refused may still be sending when the connection is closed, and is told that.
      }
      return read.toString(StandardCharsets.UTF_8);
    }
  }
}
