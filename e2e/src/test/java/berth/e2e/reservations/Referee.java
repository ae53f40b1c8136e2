package berth.e2e.reservations;

import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Python;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;

/**
 * The process that sees who uses which GPU, and knows nothing of locks: {@code referee.py}. Any
 * thread may call.
 */
final class Referee implements AutoCloseable {
  static final String ALONE = "alone";
  static final String OVERLAP = "overlap";

  private static final int LINES_AROUND = 12;

  private final Process process;
  private final BufferedReader out;
  private final Path socket;
  private final Path log;

  private Referee(Process process, Path socket, Path log) throws IOException {
    this.process = process;
    this.out = process.inputReader();
    this.socket = socket;
    this.log = log;
    if (!"ready".equals(out.readLine())) {
      throw new AssertionError("the referee did not start");
    }
  }

  static Referee start(Path folder) throws IOException {
    Path socket = folder.resolve("referee");
    Path log = folder.resolve("referee.log");
    Process process =
        new ProcessBuilder(Python.script("referee.py", socket, log))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    return new Referee(process, socket, log);
  }

  /** Where the scripts find it. */
  Path socket() {
    return socket;
  }

  /** The use of GPUs by a thread of this process, until it is closed. */
  record Use(SocketChannel channel, String answer) implements AutoCloseable {
    @Override
    public void close() throws IOException {
      send(channel, "LEAVE " + System.nanoTime());
      // A child that is just being started may have inherited the descriptor, and closing it would
      // not be enough.
      channel.shutdownOutput();
      channel.close();
    }
  }

  Use enter(String name, List<Integer> gpus, long askedNanos) throws IOException {
    SocketChannel channel = knock(name, gpus, askedNanos);
    ByteBuffer answer = ByteBuffer.allocate(100);
    channel.read(answer);
    return new Use(channel, StandardCharsets.UTF_8.decode(answer.flip()).toString().strip());
  }

  /** As {@link #enter}, without waiting for the answer. */
  SocketChannel knock(String name, List<Integer> gpus, long askedNanos) throws IOException {
    long now = System.nanoTime();
    SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
    channel.connect(UnixDomainSocketAddress.of(socket));
    send(channel, "ENTER " + name + " " + indices(gpus) + " " + askedNanos + " " + now);
    return channel;
  }

  /** Stops the process until it gets SIGCONT, or makes it go on. */
  void signal(String name) {
    Installed.run("kill", "-" + name, "" + process.pid());
  }

  static String indices(List<Integer> gpus) {
    return gpus.stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  private static void send(SocketChannel channel, String line) throws IOException {
    channel.write(ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8)));
  }

  /** From now on nobody needs to make progress. */
  void endOfContest() throws IOException {
    tell("END");
  }

  /** That the server is dead which gave GPUs to those of a kind. */
  void serverKilled(Kind kind) throws IOException {
    tell("SERVER " + kind);
  }

  private synchronized void tell(String line) throws IOException {
    process.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
    process.getOutputStream().flush();
  }

  /** What it has seen. To be called once, when everybody has left. */
  Verdict verdict() throws IOException {
    process.getOutputStream().close();
    Properties facts = new Properties();
    facts.load(out);
    return new Verdict(facts);
  }

  /** The lines of its log around each overlap. */
  String evidence() {
    try {
      List<String> lines = Files.readAllLines(log);
      StringBuilder evidence = new StringBuilder();
      int shown = 0;
      for (int i = 0; i < lines.size(); i++) {
        if (lines.get(i).contains(" OVERLAP ")) {
          int from = Math.max(shown, i - LINES_AROUND);
          shown = Math.max(from, Math.min(lines.size(), i + LINES_AROUND));
          lines.subList(from, shown).forEach(line -> evidence.append(line).append('\n'));
        }
      }
      return evidence.toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }

  /** What the referee reports. Times are in seconds. */
  record Verdict(Properties facts) {
    int overlaps() {
      return Integer.parseInt(facts.getProperty("overlaps"));
    }

    /** Who had not left. */
    String remaining() {
      return facts.getProperty("remaining");
    }

    /** How late it learned of anyone who began. */
    double slowest() {
      return number("slowest");
    }

    int grants(Kind kind) {
      return (int) number(kind + ".grants");
    }

    int killedWhileUsing(Kind kind) {
      return (int) number(kind + ".killed");
    }

    /** How many used GPUs when their server was killed. */
    int outlivedServer(Kind kind) {
      return (int) number(kind + ".outlived");
    }

    double longestWait(Kind kind) {
      return number(kind + ".wait");
    }

    /** The longest time in which nobody of a kind got GPUs. */
    double longestGap(Kind kind) {
      return number(kind + ".gap");
    }

    private double number(String key) {
      return Double.parseDouble(facts.getProperty(key, "0"));
    }
  }
}
