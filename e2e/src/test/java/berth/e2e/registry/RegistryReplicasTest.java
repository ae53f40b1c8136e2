package berth.e2e.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.etcd.EtcdCluster;
import berth.rpc.Address;
import berth.rpc.Replicas;
import berth.v1.ListServersRequest;
import berth.v1.RegistryServiceGrpc;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestReporter;
import org.junit.jupiter.api.io.TempDir;

/** Three registries before three members of etcd, and servers and users who know all of them. */
@Tag("etcd")
class RegistryReplicasTest {
  private static final int SERVERS = 5;
  private static final Duration SOON = Duration.ofSeconds(30);
  private static final Duration MAX_QUERY = Duration.ofSeconds(2);
  private static final Duration QUERY_DEADLINE = Duration.ofSeconds(1);

  @TempDir private Path folder;
  private EtcdCluster etcd;
  private final List<Daemon> registries = new ArrayList<>();
  private final List<SimulatedServer> servers = new ArrayList<>();

  @AfterEach
  void stop() {
    servers.forEach(SimulatedServer::close);
    registries.forEach(Daemon::close);
    if (etcd != null) {
      etcd.close();
    }
  }

  @Test
  void whicheverOneDiesNobodyNotices(TestReporter reporter) throws Exception {
    etcd = EtcdCluster.start(3);
    for (int i = 0; i < 3; i++) {
      registries.add(registry("127.0.0.1:0"));
    }
    List<Address> addresses = registries.stream().map(RegistryReplicasTest::address).toList();
    for (int i = 0; i < SERVERS; i++) {
      servers.add(new SimulatedServer("gpu" + i, 18812 + i, addresses));
    }
    try (Replicas asked = new Replicas("registry", addresses)) {
      await().atMost(SOON).until(() -> names(asked).size() == SERVERS);

      // The registry that is being asked, then the member that the others follow.
      Address current = asked.current().address();
      Daemon victim = registries.stream().filter(r -> address(r).equals(current)).findAny().get();
      victim.kill();
      Duration withoutRegistry = longestQueryUntilAllWereHeard(asked);
      assertThat(asked.current().address()).isNotEqualTo(current);

      registries.add(registry(victim.address()));
      Duration withAllAgain = longestQueryUntilAllWereHeard(asked);

      etcd.kill(etcd.leader());
      Duration withoutLeader = longestQueryUntilAllWereHeard(asked);

      List<Duration> longest = List.of(withoutRegistry, withAllAgain, withoutLeader);
      reporter.publishEntry("longest queries", longest.toString());
      assertThat(longest).allMatch(duration -> duration.compareTo(MAX_QUERY) < 0);
      assertThat(servers).allMatch(server -> server.failures() == 0);
      assertThat(servers).allMatch(server -> server.registrations() == 1);
      // Every registry that lives knows the same, each by itself.
      for (Daemon registry : registries) {
        if (registry.alive()) {
          try (Replicas alone = new Replicas("registry", List.of(address(registry)))) {
            assertThat(names(alone)).isEqualTo(names(asked));
          }
        }
      }
    }
  }

  @Test
  void aServerGoesOnAtAnotherRegistryWhenItsOwnDies() throws Exception {
    etcd = EtcdCluster.start(3);
    registries.add(registry("127.0.0.1:0"));
    registries.add(registry("127.0.0.1:0"));
    String both = registries.get(0).address() + "," + registries.get(1).address();
    try (Daemon server =
            Daemon.start(
                folder,
                "berthd",
                "--name",
                "gpu01",
                "--registry",
                both,
                "--simulate-gpus",
                "2",
                "--runtime",
                "process",
                "--allow-root");
        Replicas second = new Replicas("registry", List.of(address(registries.get(1))))) {
      await().atMost(SOON).until(() -> names(second).equals(List.of("gpu01")));

      registries.get(0).kill();

      String arrived = "the registry at " + registries.get(1).address() + " answers";
      await()
          .atMost(SOON)
          .until(
              () -> {
                assertThat(names(second)).containsExactly("gpu01");
                return server.log().contains(arrived);
              });
      etcd.kill(etcd.leader());
      Installed.Result reserved =
          Installed.berth(
              "reserve", "--registry", both, "--gpus", "2", "--for", "1m", "--wait", "30s");
      assertThat(reserved.exitCode()).as(reserved.err()).isZero();
      await()
          .atMost(SOON)
          .until(
              () ->
                  Installed.berth("servers", "--registry", both).out().contains("gpu01")
                      && Installed.berth("servers", "--registry", both).out().contains("0/2"));
      assertThat(server.log()).containsOnlyOnce("registered with");
      String id = reserved.out().substring(0, reserved.out().indexOf(':'));
      assertThat(Installed.berth("release", "--registry", both, id).exitCode()).isZero();
    }
  }

  @Test
  void aRegistryThatStartsBeforeEtcdWaitsForIt() throws Exception {
    etcd = EtcdCluster.start(1);
    etcd.kill(0);
    Daemon early = registry("127.0.0.1:0");
    registries.add(early);
    await().atMost(SOON).until(() -> early.log().contains("no servers are known yet"));
    etcd.restart(0);

    servers.add(new SimulatedServer("gpu01", 18812, List.of(address(early))));

    try (Replicas alone = new Replicas("registry", List.of(address(early)))) {
      await().atMost(SOON).until(() -> names(alone).equals(List.of("gpu01")));
    }
  }

  @Test
  void aRegistryThatWaitsForEtcdCanBeStopped() throws Exception {
    // Nobody listens there.
    try (Daemon early =
        Daemon.start(folder, "berth-registry", "--store", "etcd", "--etcd", "127.0.0.1:1")) {
      assertThat(early.stop()).isZero();
    }
  }

  private Daemon registry(String listen) {
    return Daemon.start(
        folder,
        "berth-registry",
        "--listen",
        listen,
        "--lease",
        "3s",
        "--store",
        "etcd",
        "--etcd",
        String.join(",", etcd.endpoints()));
  }

  /** Asks until every server has been answered twice. */
  private Duration longestQueryUntilAllWereHeard(Replicas asked) {
    AtomicLong longest = new AtomicLong();
    for (int round = 0; round < 2; round++) {
      long start = System.nanoTime();
      await()
          .atMost(SOON)
          .pollInterval(Duration.ofMillis(10))
          .until(
              () -> {
                long before = System.nanoTime();
                assertThat(names(asked)).hasSize(SERVERS).doesNotHaveDuplicates();
                longest.accumulateAndGet(System.nanoTime() - before, Math::max);
                return servers.stream().allMatch(server -> server.heardSince(start));
              });
    }
    return Duration.ofNanos(longest.get());
  }

  private static Address address(Daemon registry) {
    return Address.parse(registry.address(), 0);
  }

  private static List<String> names(Replicas registries) {
    return registries
        .call(
            SOON,
            channel ->
                RegistryServiceGrpc.newBlockingStub(channel)
                    .withDeadlineAfter(QUERY_DEADLINE.toMillis(), TimeUnit.MILLISECONDS)
                    .listServers(ListServersRequest.getDefaultInstance()))
        .getServersList()
        .stream()
        .map(server -> server.getInfo().getName())
        .toList();
  }
}
