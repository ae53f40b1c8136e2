package berth.e2e.soak;

import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Installed;
import berth.e2e.fixture.NetworkNamespace;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

/**
 * A registry, four GPU servers that run plain processes, and a user, each on a machine of its own
 * as far as networks are concerned. This process reaches them only through the user's commands. All
 * of it ends with this process, however that ends.
 */
final class SoakWorld implements AutoCloseable {
  private static final String NETWORK = "10.78.0.";
  private static final String REGISTRY = NETWORK + "100";
  private static final String USER = NETWORK + "200";
  private static final int[] GPUS = {2, 2, 3, 4};
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private final Path folder;
  private final Path commands;
  private final Deque<AutoCloseable> opened = new ArrayDeque<>();
  private final NetworkNamespace user;
  private final SoakServer registry;
  private final List<SoakServer> servers = new ArrayList<>();

  /** Starts everything. */
  SoakWorld(Path folder) {
    this.folder = folder;
    this.commands = folder.resolve("commands");
    try {
      Files.createDirectory(commands);
      NetworkNamespace lan = open(NetworkNamespace.networkSwitch());
      user = machine(lan, USER);
      registry =
          new SoakServer(
              "registry",
              "berth-registry",
              machine(lan, REGISTRY),
              folder.resolve("registry"),
              List.of("--listen", REGISTRY + ":18811", "--insecure"));
      for (int i = 0; i < GPUS.length; i++) {
        servers.add(server(lan, "gpu0" + (i + 1), NETWORK + (i + 1), GPUS[i]));
      }
      startAll();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  private <T extends AutoCloseable> T open(T part) {
    opened.push(part);
    return part;
  }

  private NetworkNamespace machine(NetworkNamespace lan, String address) {
    return open(NetworkNamespace.machine()).plugInto(lan, address + "/24");
  }

  private SoakServer server(NetworkNamespace lan, String name, String address, int gpus) {
    return new SoakServer(
        name,
        "berthd",
        machine(lan, address),
        folder.resolve(name),
        List.of(
            "--name",
            name,
            "--listen",
            address + ":18812",
            "--insecure",
            "--registry",
            REGISTRY,
            "--runtime",
            "process",
            "--allow-root",
            "--simulate-gpus",
            Integer.toString(gpus)));
  }

  private void startAll() {
    registry.start();
    servers.stream()
        .map(server -> CompletableFuture.runAsync(server::start))
        .toList()
        .forEach(CompletableFuture::join);
    awaitServers();
  }

  /** Stops the registry and the servers in an orderly way, and returns what was wrong with that. */
  List<String> stopAll() {
    return all().stream()
        .map(server -> CompletableFuture.supplyAsync(() -> stop(server)))
        .toList()
        .stream()
        .flatMap(problem -> problem.join().stream())
        .toList();
  }

  /** Stops one of them, and returns what was wrong with that. */
  static Optional<String> stop(SoakServer server) {
    try {
      int code = server.stop();
      return code == 0
          ? Optional.empty()
          : Optional.of(server.name() + " ended with " + code + " when it was stopped");
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Returns when the registry knows all servers. */
  void awaitServers() {
    await()
        .atMost(PATIENCE)
        .until(() -> berth("servers").out().lines().count() == servers.size() + 1);
  }

  Path folder() {
    return folder;
  }

  SoakServer registry() {
    return registry;
  }

  List<SoakServer> servers() {
    return servers;
  }

  SoakServer server(String name) {
    return servers.stream().filter(server -> server.name().equals(name)).findFirst().orElseThrow();
  }

  /** The registry and the servers. */
  List<SoakServer> all() {
    return Stream.concat(Stream.of(registry), servers.stream()).toList();
  }

  /** Whether anything was away since then. */
  boolean somethingAwaySince(long nanos) {
    return all().stream().anyMatch(server -> server.absences().since(nanos));
  }

  /** Starts {@code berth}, as a user who knows the registry. */
  SoakCommand start(String... args) {
    List<String> words =
        Stream.concat(Stream.of(Installed.command("berth")), Stream.of(args)).toList();
    return SoakCommand.start(commands, variables(), user.inside(words));
  }

  /** Runs {@code berth} to its end, in the same way. */
  Installed.Result berth(String... args) {
    List<String> words =
        Stream.concat(Stream.of(Installed.command("berth")), Stream.of(args)).toList();
    return Installed.run(variables(), PATIENCE, user.inside(words).toArray(String[]::new));
  }

  private Map<String, String> variables() {
    return Map.of(
        "BERTH_REGISTRY",
        REGISTRY,
        "LC_ALL",
        "C.UTF-8",
        // What killed commands leave behind.
        "BERTH_JAVA_OPTS",
        "-Djava.io.tmpdir=" + commands);
  }

  /** Ends every process that is left. */
  @Override
  public void close() {
    while (!opened.isEmpty()) {
      try {
        opened.pop().close();
      } catch (Exception e) {
        throw new AssertionError(e);
      }
    }
  }
}
