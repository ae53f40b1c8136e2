package berth.e2e.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.NetworkNamespace;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A registry, servers and a user, each on a machine of its own as far as networks are concerned.
 */
class ManyMachinesTest {
  private static final Duration PATIENCE = Duration.ofSeconds(40);
  private static final String REGISTRY = "10.77.0.1";

  @TempDir private Path folder;
  private final Deque<AutoCloseable> opened = new ArrayDeque<>();
  private NetworkNamespace lan;
  private NetworkNamespace registryHost;
  private NetworkNamespace serverHost;
  private NetworkNamespace user;

  @BeforeEach
  void connect() {
    lan = open(NetworkNamespace.networkSwitch());
    registryHost = machine(1);
    serverHost = machine(2);
    user = machine(3);
  }

  @AfterEach
  void close() throws Exception {
    while (!opened.isEmpty()) {
      opened.pop().close();
    }
  }

  @Test
  void everybodyFindsTheRegistryByBroadcastAndTheServerByTheRegistry() {
    registry("--name", "main");

    server(serverHost, "gpu01", "--listen", "0.0.0.0:18812", "--insecure");

    awaitServers("gpu01 10.77.0.2:18812");
    Installed.Result gpus = berthIn(user, "gpus");
    assertThat(gpus.exitCode()).isZero();
    assertThat(gpus.err()).contains("found the registry main at 10.77.0.1:18811");
    assertThat(gpus.out()).contains("gpu01 at 10.77.0.2:18812", "[1] Simulated A100");
    Installed.Result run =
        berthIn(user, "run", "--registry", REGISTRY, "--gpus", "1", "--", "printenv", "NV_GPU");
    assertThat(run.out()).isEqualTo("0\n");
  }

  @Test
  void aServerThatIsCutOffGoesOnAndComesBackByItself() {
    Daemon registry = registry("--lease", "2s");
    Daemon server =
        server(
            serverHost, "gpu01", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);
    awaitServers("gpu01 10.77.0.2:18812");

    serverHost.ip("link set eth0 down");

    awaitServers();
    assertThat(registry.log()).contains("gpu01 at 10.77.0.2:18812 sent no heartbeat for 2000 ms");
    Installed.Result there = berthIn(serverHost, "gpus", "--server", "127.0.0.1:18812");
    assertThat(there.out()).contains("[1] Simulated A100");
    serverHost.ip("link set eth0 up");
    awaitServers("gpu01 10.77.0.2:18812");
    assertThat(server.alive()).isTrue();
  }

  @Test
  void aRegistryThatRestartsKnowsEveryoneAgain() throws InterruptedException {
    Daemon first = registry();
    server(serverHost, "gpu01", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);
    server(user, "gpu02", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);
    awaitServers("gpu01 10.77.0.2:18812", "gpu02 10.77.0.3:18812");

    first.kill();
    registry();

    awaitServers("gpu01 10.77.0.2:18812", "gpu02 10.77.0.3:18812");
  }

  @Test
  void anOrderlyStopIsNoticedLongBeforeTheLeaseIsOver() throws InterruptedException {
    Daemon registry = registry("--lease", "30s");
    Daemon orderly =
        server(
            serverHost, "gpu01", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);
    awaitServers("gpu01 10.77.0.2:18812");

    orderly.stop();

    awaitServers();
    assertThat(registry.log()).contains("gpu01 at 10.77.0.2:18812 left");
  }

  @Test
  void theNewestOfTwoServersWithOneNameIsKnown() {
    Daemon registry = registry();
    Daemon older =
        server(
            serverHost, "gpu01", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);
    awaitServers("gpu01 10.77.0.2:18812");

    server(user, "gpu01", "--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY);

    awaitServers("gpu01 10.77.0.3:18812");
    assertThat(registry.log())
        .contains(
            "gpu01 at 10.77.0.2:18812 is replaced by a newer server, gpu01 at 10.77.0.3:18812");
    await()
        .atMost(PATIENCE)
        .until(() -> older.log().contains("in place of this one: gpu01 at 10.77.0.3:18812"));
    // It stays so, although the older one goes on trying.
    await()
        .atMost(PATIENCE)
        .until(() -> older.log().contains("the name gpu01 is known already, as a newer server"));
    assertThat(servers()).containsExactly("gpu01 10.77.0.3:18812");
  }

  @Test
  void aServerThatRestartsOnItsAddressWithOtherGpusIsKnownWithThose() throws InterruptedException {
    Daemon registry = registry("--lease", "60s");
    String[] options = {"--listen", "0.0.0.0:18812", "--insecure", "--registry", REGISTRY};
    Daemon first = server(serverHost, "gpu01", options);
    awaitServers("gpu01 10.77.0.2:18812");

    first.kill();
    List<String> withFour = new ArrayList<>(List.of(options));
    withFour.addAll(List.of("--simulate-gpus", "4"));
    server(serverHost, "gpu01", withFour.toArray(String[]::new));

    await()
        .atMost(PATIENCE)
        .until(() -> berthIn(user, "servers", "--registry", REGISTRY).out().contains("4/4"));
    assertThat(registry.log()).contains("gpu01 at 10.77.0.2:18812 has restarted");
  }

  @Test
  void aServerThatOnlyItsOwnMachineFindsIsRefused() {
    registry();

    assertThatThrownBy(() -> server(serverHost, "gpu01", "--registry", REGISTRY))
        .hasMessageContaining("cannot reach this server at 127.0.0.1:0")
        .hasMessageContaining("--advertise");
  }

  private Daemon registry(String... options) {
    List<String> args = new ArrayList<>(List.of("--listen", "0.0.0.0:18811", "--insecure"));
    args.addAll(List.of(options));
    return open(
        Daemon.startIn(registryHost, folder, "berth-registry", args.toArray(String[]::new)));
  }

  private Daemon server(NetworkNamespace host, String name, String... options) {
    List<String> args =
        new ArrayList<>(List.of("--name", name, "--runtime", "process", "--allow-root"));
    args.addAll(List.of(options));
    if (!args.contains("--simulate-gpus")) {
      args.addAll(List.of("--simulate-gpus", "2"));
    }
    try {
      Path own = Files.createTempDirectory(folder, name);
      return open(Daemon.startIn(host, own, "berthd", args.toArray(String[]::new)));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private void awaitServers(String... expected) {
    await()
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(300))
        .untilAsserted(() -> assertThat(servers()).containsExactly(expected));
  }

  /** The servers that the registry knows, as {@code NAME ADDRESS}. */
  private List<String> servers() {
    Installed.Result result = berthIn(user, "servers", "--registry", REGISTRY);
    return result
        .out()
        .lines()
        .map(line -> line.split("\\s+"))
        .filter(words -> words.length > 1 && words[1].contains(":"))
        .map(words -> words[0] + " " + words[1])
        .toList();
  }

  private Installed.Result berthIn(NetworkNamespace host, String... args) {
    List<String> words =
        new ArrayList<>(List.of("env", "-u", "BERTH_REGISTRY", Installed.command("berth")));
    words.addAll(Arrays.asList(args));
    return Installed.run(host.inside(words).toArray(String[]::new));
  }

  private NetworkNamespace machine(int number) {
    return open(NetworkNamespace.machine()).plugInto(lan, "10.77.0." + number + "/24");
  }

  private <T extends AutoCloseable> T open(T part) {
    opened.push(part);
    return part;
  }
}
