package berth.etcd;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * An etcd cluster of a test, on free ports of loopback, whose members can be killed, frozen and
 * started again. It ends with the test, however that ends: who kills what is left of it waits for
 * the end of a pipe that only this process has.
 */
public final class EtcdCluster implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Duration REQUEST = Duration.ofMillis(500);

  private final Path folder;
  private final int[] clientPorts;
  private final int[] peerPorts;
  private final Process[] members;
  private final Process undertaker;
  private final HttpClient http = HttpClient.newHttpClient();

  private EtcdCluster(int size) throws IOException {
    folder = Files.createTempDirectory("berth-etcd");
    undertaker =
        new ProcessBuilder(
                "setsid",
                "sh",
                "-c",
                "cat; cat \"$0\"/*.pid 2>/dev/null | xargs -r kill -9; rm -rf \"$0\"",
                folder.toString())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    int[] ports = freePorts(2 * size);
    clientPorts = IntStream.range(0, size).map(i -> ports[i]).toArray();
    peerPorts = IntStream.range(size, 2 * size).map(i -> ports[i]).toArray();
    members = new Process[size];
  }

  /** Starts one, and returns when it answers. */
  public static EtcdCluster start(int size) {
    try {
      EtcdCluster cluster = new EtcdCluster(size);
      for (int i = 0; i < size; i++) {
        cluster.restart(i);
      }
      cluster.awaitHealthy();
      return cluster;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public int size() {
    return members.length;
  }

  /** How clients reach all members. */
  public List<String> endpoints() {
    return IntStream.range(0, size()).mapToObj(this::endpoint).toList();
  }

  public String endpoint(int member) {
    return "http://127.0.0.1:" + clientPorts[member];
  }

  /** Starts a member, with what it has on disk. */
  public void restart(int i) throws IOException {
    String peers =
        IntStream.range(0, size())
            .mapToObj(j -> "m" + j + "=http://127.0.0.1:" + peerPorts[j])
            .collect(Collectors.joining(","));
    List<String> command =
        new ArrayList<>(List.of("etcd", "--name", "m" + i, "--log-level", "error"));
    command.addAll(List.of("--data-dir", folder.resolve("m" + i).toString()));
    String client = endpoint(i);
    command.addAll(List.of("--listen-client-urls", client, "--advertise-client-urls", client));
    String peer = "http://127.0.0.1:" + peerPorts[i];
    command.addAll(List.of("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer));
    command.addAll(List.of("--initial-cluster", peers));
    members[i] =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve("m" + i + ".log").toFile())
            .start();
    Files.writeString(pidFile(i), members[i].pid() + "\n");
  }

  /** Starts all members again that were killed, and returns when they answer. */
  public void restartDead() throws IOException {
    for (int i = 0; i < size(); i++) {
      if (!members[i].isAlive()) {
        restart(i);
      }
    }
    awaitHealthy();
  }

  /** Sends SIGKILL, and returns when it is dead. */
  public void kill(int member) throws IOException, InterruptedException {
    members[member].destroyForcibly().waitFor();
    Files.delete(pidFile(member));
  }

  /** Deletes all that a dead member has on disk. */
  public void wipe(int member) throws IOException {
    try (Stream<Path> files = Files.walk(folder.resolve("m" + member))) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    }
  }

  /** Sends SIGSTOP: it keeps its connections and answers nothing. */
  public void freeze(int member) throws IOException, InterruptedException {
    signal(member, "STOP");
  }

  /** Lets a frozen member go on. */
  public void thaw(int member) throws IOException, InterruptedException {
    signal(member, "CONT");
  }

  /** The member that leads, as the others see it. */
  public int leader() {
    return await().atMost(PATIENCE).until(this::findLeader, OptionalInt::isPresent).getAsInt();
  }

  public int follower() {
    return (leader() + 1) % size();
  }

  /** Waits until every living member follows a leader. */
  public void awaitHealthy() {
    await()
        .atMost(PATIENCE)
        .until(
            () ->
                IntStream.range(0, size())
                    .filter(i -> members[i].isAlive())
                    .allMatch(i -> get(i, "/health").contains("\"true\"")));
  }

  /** Forgets all revisions up to now, at one member that does so for all. */
  public void compact(int member) {
    String revision = field(post(member, "/v3/maintenance/status", "{}"), "revision");
    post(member, "/v3/kv/compaction", "{\"revision\":" + revision + "}");
  }

  @Override
  public void close() {
    try {
      undertaker.getOutputStream().close();
      undertaker.waitFor();
      for (Process member : members) {
        member.waitFor();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private Path pidFile(int member) {
    return folder.resolve("m" + member + ".pid");
  }

  private void signal(int member, String signal) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + signal, Long.toString(members[member].pid()))
        .inheritIO()
        .start()
        .waitFor();
  }

  private OptionalInt findLeader() {
    for (int i = 0; i < size(); i++) {
      String status = post(i, "/v3/maintenance/status", "{}");
      if (!status.isEmpty() && field(status, "leader").equals(field(status, "member_id"))) {
        return OptionalInt.of(i);
      }
    }
    return OptionalInt.empty();
  }

  private String get(int member, String path) {
    return send(request(member, path).GET().build());
  }

  private String post(int member, String path, String json) {
    return send(request(member, path).POST(HttpRequest.BodyPublishers.ofString(json)).build());
  }

  private HttpRequest.Builder request(int member, String path) {
    return HttpRequest.newBuilder(URI.create(endpoint(member) + path)).timeout(REQUEST);
  }

  // Empty if it does not answer.
  private String send(HttpRequest request) {
    try {
      return http.send(request, HttpResponse.BodyHandlers.ofString()).body();
    } catch (IOException e) {
      return "";
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static String field(String json, String name) {
    Matcher matcher = Pattern.compile("\"" + name + "\":\"(\\d+)\"").matcher(json);
    return matcher.find() ? matcher.group(1) : "";
  }

  // Not those that the kernel gives to who connects, while a member is dead.
  private static int[] freePorts(int count) {
    List<ServerSocket> sockets = new ArrayList<>();
    try {
      while (sockets.size() < count) {
        int port = ThreadLocalRandom.current().nextInt(21_000, 32_000);
        try {
          sockets.add(new ServerSocket(port, 1, InetAddress.getLoopbackAddress()));
        } catch (IOException e) {
          // Somebody has it.
        }
      }
      return sockets.stream().mapToInt(ServerSocket::getLocalPort).toArray();
    } finally {
      for (ServerSocket socket : sockets) {
        try {
          socket.close();
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
      }
    }
  }
}
