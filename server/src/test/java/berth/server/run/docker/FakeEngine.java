package berth.server.run.docker;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A socket that answers as a Docker engine does to the questions whether it is there, and to others
 * what it is told to, until it is told to hang: then it takes every call and answers none.
 */
final class FakeEngine implements AutoCloseable {
  private final Path socket;
  private final ServerSocketChannel server;
  private final List<SocketChannel> open = new CopyOnWriteArrayList<>();
  private final List<String> asked = new CopyOnWriteArrayList<>();
  private final List<String> answered = new CopyOnWriteArrayList<>();
  private final Map<String, Answer> answers = new ConcurrentHashMap<>();
  private volatile boolean hangs;

  private record Answer(int status, String body) {}

  FakeEngine(Path folder) throws IOException {
    socket = folder.resolve("docker.sock");
    server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    server.bind(UnixDomainSocketAddress.of(socket));
    start(this::accept);
  }

  String host() {
    return "unix://" + socket;
  }

  void hang() {
    hangs = true;
  }

  /**
   * Tells it what to say.
   *
   * @param call the beginning of what follows the version in the first line of a call, after its
   *     method: {@code POST /containers/create}
   */
  void answer(String call, int status, String body) {
    answers.put(call, new Answer(status, body));
  }

  /** How many calls that begin so were answered. */
  long timesAnswered(String call) {
    return answered.stream().filter(line -> line.startsWith(call)).count();
  }

  /** The first lines of the calls that came while it hung. */
  List<String> unanswered() {
    return asked;
  }

  private void accept() {
    try {
      while (true) {
        SocketChannel caller = server.accept();
        open.add(caller);
        start(() -> serve(caller));
      }
    } catch (IOException e) {
      // Closed.
    }
  }

  private void serve(SocketChannel caller) {
    ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
    try {
      while (caller.read(buffer) >= 0) {
        String text = new String(buffer.array(), 0, buffer.position(), StandardCharsets.UTF_8);
        if (isWhole(text)) {
          buffer.clear();
          String line = text.lines().findFirst().orElse("");
          if (hangs) {
            asked.add(line);
          } else {
            answer(caller, line.replaceFirst(" /v[0-9.]+/", " /"));
          }
        }
      }
    } catch (IOException e) {
      // It has gone.
    }
  }

  private static boolean isWhole(String call) {
    int end = call.indexOf("\r\n\r\n") + 4;
    if (end < 4) {
      return false;
    }
    String head = call.substring(0, end).toLowerCase(Locale.ROOT);
    if (head.contains("transfer-encoding: chunked")) {
      return call.endsWith("0\r\n\r\n") && call.length() > end;
    }
    Matcher length = Pattern.compile("content-length: (\\d+)").matcher(head);
    return !length.find() || call.length() - end >= Integer.parseInt(length.group(1));
  }

  private void answer(SocketChannel caller, String line) throws IOException {
    answered.add(line);
    Answer answer =
        answers.entrySet().stream()
            .filter(entry -> line.startsWith(entry.getKey()))
            .findFirst()
            .map(Map.Entry::getValue)
            .orElse(new Answer(200, line.contains("/info") ? "{\"ServerVersion\":\"1.0\"}" : "OK"));
    boolean empty = answer.status == 204 || answer.status == 304;
    String head =
        "HTTP/1.1 "
            + answer.status
            + " Said\r\nContent-Type: application/json\r\n"
            + (empty ? "" : "Content-Length: " + answer.body.length() + "\r\n")
            + "\r\n";
    ByteBuffer bytes = ByteBuffer.wrap((head + answer.body).getBytes(StandardCharsets.UTF_8));
    while (bytes.hasRemaining()) {
      caller.write(bytes);
    }
  }

  private static void start(Runnable work) {
    Thread thread = new Thread(work, "fake-engine");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void close() {
    try {
      server.close();
      for (SocketChannel each : open) {
        each.close();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
