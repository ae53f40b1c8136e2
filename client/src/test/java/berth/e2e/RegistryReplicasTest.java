package berth.e2e;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

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
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
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
  private Replicas asked;

  @BeforeEach
  void start() {
    etcd = EtcdCluster.start(3);
    for (int i = 0; i < 3; i++) {
      registries.add(registry("127.0.0.1:0"));
    }
    List<Address> addresses =
        registries.stream().map(registry -> Address.parse(registry.address(), 0)).toList();
    for (int i = 0; i < SERVERS; i++) {
      servers.add(new SimulatedServer("gpu" + i, 18812 + i, addresses));
    }
    asked = new Replicas("registry", addresses);
    await().atMost(SOON).until(() -> names(asked).size() == SERVERS);
  }

  @AfterEach
  void stop() {
    asked.close();
    servers.forEach(SimulatedServer::close);
    registries.forEach(Daemon::close);
    etcd.close();
  }

  @Test
  void whicheverOneDiesNobodyNotices() throws Exception {
    // The registry that is being asked, then the member that the others follow.
    Address current = asked.current().address();
    Daemon victim =
        registries.stream().filter(r -> r.address().equals(current.toString())).findAny().get();
    victim.kill();
    Duration withoutRegistry = queryUntilAllWereHeard();
    assertThat(asked.current().address()).isNotEqualTo(current);

    registries.add(registry(victim.address()));
    Duration withAllAgain = queryUntilAllWereHeard();

    etcd.kill(etcd.leader());
    Duration withoutLeader = queryUntilAllWereHeard();

    System.out.println(List.of("longest query", withoutRegistry, withAllAgain, withoutLeader));
    assertThat(List.of(withoutRegistry, withAllAgain, withoutLeader))
        .allMatch(longest -> longest.compareTo(MAX_QUERY) < 0);
    assertThat(servers).allMatch(server -> server.failures() == 0);
    assertThat(servers).allMatch(server -> server.registrations() == 1);
    // Every registry that lives knows the same, each by itself.
    for (Daemon registry : registries) {
      if (registry.alive()) {
        try (Replicas alone =
            new Replicas("registry", List.of(Address.parse(registry.address(), 0)))) {
          assertThat(names(alone)).isEqualTo(names(asked));
        }
      }
    }
  }

  @Test
  void aRegistryStartsBeforeEtcdAndWaitsForIt() throws Exception {
    for (int i = 0; i < etcd.size(); i++) {
      etcd.kill(i);
    }
    try (Daemon early = registry("127.0.0.1:0");
        Replicas alone = new Replicas("registry", List.of(Address.parse(early.address(), 0)))) {
      await().atMost(SOON).until(() -> early.log().contains("nobody is known yet"));
      for (int i = 0; i < etcd.size(); i++) {
        etcd.restart(i);
      }
      await().atMost(SOON).ignoreExceptions().until(() -> names(alone).size() == SERVERS);
      assertThat(early.stop()).isZero();
    }
  }

  private Daemon registry(String listen) {
    return Daemon.start(
        folder,
        "berth-registry",
        "--listen",
        listen,
        "--store",
        "etcd",
        "--etcd",
        String.join(",", etcd.endpoints()));
  }

  /** Asks until every server has been answered twice; returns how long a query took at most. */
  private Duration queryUntilAllWereHeard() {
    Duration longest = Duration.ZERO;
    for (int round = 0; round < 2; round++) {
      long start = System.nanoTime();
      while (!servers.stream().allMatch(server -> server.heardSince(start))) {
        long before = System.nanoTime();
        assertThat(names(asked)).hasSize(SERVERS).doesNotHaveDuplicates();
        Duration took = Duration.ofNanos(System.nanoTime() - before);
        longest = took.compareTo(longest) > 0 ? took : longest;
        assertThat(System.nanoTime() - start).isLessThan(SOON.toNanos());
      }
    }
    return longest;
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
