package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.RegistryClient;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.RunServer;
import berth.rpc.Address;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Clusters that each want more than half of all GPUs, all at once. */
class ClusterContestTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final int TASKS = 3;
  private static final int GPUS_EACH = 2;

  @TempDir private static Path folder;
  private static Daemon registry;
  private static RegistryClient client;
  private static List<RunServer> servers;

  @BeforeAll
  static void start() throws IOException {
    registry = Daemon.start(folder, "berth-registry");
    client = RegistryClient.of(List.of(Address.parse(registry.address(), 0)));
    servers = new ArrayList<>();
    for (int i = 1; i <= 3; i++) {
      servers.add(
          new RunServer(
              Files.createDirectory(folder.resolve("gpu" + i)),
              "--name",
              "gpu" + i,
              "--runtime",
              "process",
              "--allow-root",
              "--simulate-gpus",
              i == 3 ? "2" : "4",
              "--sample-interval",
              "100ms",
              "--port-range",
              "23" + i + "00-23" + i + "99",
              "--registry",
              registry.address()));
    }
    await().atMost(PATIENCE).until(() -> client.servers().size() == 3);
  }

  @AfterAll
  static void stop() {
    servers.forEach(RunServer::close);
    client.close();
    registry.close();
  }

  @ParameterizedTest
  @CsvSource({"2, 15", "10, 4"})
  @Timeout(value = 10, unit = TimeUnit.MINUTES)
  void allFinishAndNoneWaitsWithSomethingInItsHands(int clusters, int rounds) {
    ClusterReferee referee = new ClusterReferee();
    CompletableFuture<Void> watching = CompletableFuture.runAsync(referee::watch);
    for (int round = 0; round < rounds; round++) {
      List<Cluster> running = new ArrayList<>();
      for (int i = 0; i < clusters; i++) {
        String name = "c" + round + "-" + i;
        running.add(
            Cluster.start(
                client,
                ClusterRequest.named(name)
                    .task("worker", TASKS, worker -> worker.command("true").gpus(GPUS_EACH))
                    .build(),
                event -> referee.hear(name, event)));
      }
      for (Cluster cluster : running) {
        ClusterResult result = cluster.await();
        assertThat(result.succeeded()).as(result.toString()).isTrue();
      }
      assertThat(referee.violations).isEmpty();
    }
    referee.over = true;
    watching.join();
    assertThat(referee.looks).isGreaterThan(rounds);
    assertThat(referee.violations).isEmpty();
    servers.forEach(RunServer::assertNothingLeft);
    System.out.println(referee);
  }

  /** Asks the servers, rather than those who compete, who holds what. */
  private static final class ClusterReferee {
    private final ConcurrentLinkedQueue<String> violations = new ConcurrentLinkedQueue<>();
    private final Map<String, Long> partSince = new HashMap<>();
    private long longestPart;
    private int looks;
    private int waits;
    private volatile boolean over;

    /** A cluster goes on only after this: whoever waits holds nothing at this moment. */
    synchronized void hear(String name, ClusterEvent event) {
      if (event instanceof ClusterEvent.Waiting) {
        waits++;
        int held = held().getOrDefault(name, 0);
        if (held > 0) {
          violations.add(name + " waits with " + held + " GPUs in its hands");
        }
      }
    }

    void watch() {
      while (!over) {
        look();
      }
    }

    private void look() {
      looks++;
      Map<String, Integer> held = held();
      held.forEach(
          (name, gpus) -> {
            if (gpus < TASKS * GPUS_EACH) {
              partSince.putIfAbsent(name, System.nanoTime());
              longestPart = Math.max(longestPart, System.nanoTime() - partSince.get(name));
            }
          });
      partSince.keySet().removeIf(name -> held.getOrDefault(name, 0) % (TASKS * GPUS_EACH) == 0);
    }

    /** How many GPUs each cluster has reserved. */
    private Map<String, Integer> held() {
      Map<String, Integer> held = new HashMap<>();
      for (RunServer server : servers) {
        Set<String> seen = new HashSet<>();
        for (Reservation reservation :
            server.reservations().listReservations(PATIENCE).getReservationsList()) {
          String name = reservation.getPurpose().replaceFirst(".* cluster ", "");
          held.merge(name, reservation.getGpusCount(), Integer::sum);
          for (ReservedGpu gpu : reservation.getGpusList()) {
            if (!seen.add(gpu.getUuid())) {
              violations.add(gpu.getUuid() + " is held by two, one of them " + name);
            }
          }
        }
      }
      return held;
    }

    @Override
    public String toString() {
      return "the referee looked %d times, heard of %d waits, and saw nobody hold a part for longer than %d ms"
          .formatted(looks, waits, TimeUnit.NANOSECONDS.toMillis(longestPart));
    }
  }
}
