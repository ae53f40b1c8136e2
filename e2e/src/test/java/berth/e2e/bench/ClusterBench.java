package berth.e2e.bench;

import static berth.e2e.bench.Comparison.number;
import static berth.e2e.bench.Comparison.percentile;

import berth.client.call.RegistryClient;
import berth.client.call.ReservationClient;
import berth.client.call.RunClient;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterRequest;
import berth.fake.FakeServer;
import berth.rpc.Address;
import berth.v1.CancelRunRequest;
import berth.v1.GpuRequest;
import berth.v1.ReserveRequest;
import berth.v1.RunCodeRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * How long it takes from the request of a cluster until all of its tasks are started, for more and
 * more simulated servers, each of which takes its own time to reserve and to start; the slowest is
 * always equally slow. Beside it, what asking the same servers one after the other takes, in turns
 * with the former; a measurement in which a server has not started a program of its own fails.
 * {@code scripts/bench.sh} runs it.
 */
final class ClusterBench {
  private static final List<Integer> SIZES = List.of(2, 8, 32, 64);
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int SLOWEST_RESERVING = 20;
  private static final int SLOWEST_STARTING = 300;

  private final Address registry;
  private final int rounds;

  private ClusterBench(Address registry, int rounds) {
    this.registry = registry;
    this.rounds = rounds;
  }

  /** Arguments: the address of a registry, rounds, and the largest number of servers. */
  public static void main(String[] args) throws Exception {
    ClusterBench bench = new ClusterBench(Address.parse(args[0], 0), Integer.parseInt(args[1]));
    int largest = Integer.parseInt(args[2]);
    System.out.printf(
        "simulated servers: reserving takes 5 to %d ms, starting 100 to %d ms, the slowest both%n",
        SLOWEST_RESERVING, SLOWEST_STARTING);
    System.out.printf(
        "%-8s %14s %14s %16s %20s %16s %9s%n",
        "servers",
        "Berth p50 ms",
        "worst ms",
        "above slowest",
        "one by one p50 ms",
        "sum of delays",
        "ratio");
    // Classes, compiled code, and a registry that has settled.
    bench.measure(2, 5);
    for (int size : SIZES) {
      if (size <= largest) {
        bench.print(size, bench.measure(size, bench.rounds));
      }
    }
  }

  /**
   * @param delays what the servers take, one after the other, without anything around it
   */
  private record Times(long[] together, long[] oneByOne, Duration delays) {}

  private void print(int size, Times times) {
    double together = percentile(50, times.together);
    double oneByOne = percentile(50, times.oneByOne);
    System.out.printf(
        "%-8d %14s %14s %16s %20s %16d %9s%n",
        size,
        number(together),
        number(percentile(100, times.together)),
        number(together - SLOWEST_RESERVING - SLOWEST_STARTING),
        number(oneByOne),
        times.delays.toMillis(),
        number(oneByOne / together));
  }

  private Times measure(int size, int times) throws InterruptedException {
    Random random = new Random(size);
    List<FakeServer> servers = new ArrayList<>();
    Duration delays = Duration.ZERO;
    try (RegistryClient client = RegistryClient.of(List.of(registry))) {
      for (int i = 0; i < size; i++) {
        Duration reserving =
            Duration.ofMillis(i == 0 ? SLOWEST_RESERVING : random.nextInt(5, SLOWEST_RESERVING));
        Duration starting =
            Duration.ofMillis(i == 0 ? SLOWEST_STARTING : random.nextInt(100, SLOWEST_STARTING));
        delays = delays.plus(reserving).plus(starting);
        servers.add(new FakeServer("s" + size + "-" + i, reserving, starting).registerAt(registry));
      }
      // Those of the size before are gone when their leases are over.
      while (client.servers().size() != size) {
        Thread.sleep(100);
      }
      long[] together = new long[times];
      long[] oneByOne = new long[times];
      for (int i = 0; i < times; i++) {
        together[i] = together(client, size);
        checkLaunched(servers, 2 * i + 1);
        oneByOne[i] = oneByOne(client);
        checkLaunched(servers, 2 * i + 2);
      }
      return new Times(together, oneByOne, delays);
    } finally {
      servers.forEach(FakeServer::close);
    }
  }

  // A server that answers for a program that it started before takes no time, and compares nothing.
  private static void checkLaunched(List<FakeServer> servers, int each) {
    for (FakeServer server : servers) {
      if (server.launched.size() != each) {
        throw new IllegalStateException(
            server.address() + " started " + server.launched.size() + " programs, not " + each);
      }
    }
  }

  private static long together(RegistryClient client, int size) {
    long start = System.nanoTime();
    try (Cluster cluster =
        Cluster.start(
            client,
            ClusterRequest.named("bench")
                .task("worker", size, worker -> worker.command("true").gpus(1))
                .build(),
            event -> {})) {
      cluster.started().join();
      return System.nanoTime() - start;
    }
  }

  /** What a script would do that knows nothing better: a server, then the next. */
  private static long oneByOne(RegistryClient client) {
    long start = System.nanoTime();
    List<Runnable> cleanUps = new ArrayList<>();
    client
        .servers()
        .forEach(
            server -> {
              ReservationClient reservations = ReservationClient.of(server.address());
              RunClient runs = RunClient.of(server.address());
              String reservation =
                  reservations
                      .reserveNow(
                          ReserveRequest.newBuilder()
                              .setGpus(GpuRequest.newBuilder().setCount(1))
                              .setPortCount(1)
                              .build(),
                          TIMEOUT)
                      .getReservationId();
              String[] run = new String[1];
              try {
                runs.runCode(
                    RunCodeRequest.newBuilder()
                        .setReservationId(reservation)
                        .addCommand("true")
                        .build(),
                    event -> {
                      if (event.hasAccepted()) {
                        run[0] = event.getAccepted().getRunId();
                      }
                      if (event.hasStarted()) {
                        throw new Started();
                      }
                    });
              } catch (Started e) {
                // It runs.
              }
              cleanUps.add(
                  () -> {
                    runs.cancelRun(CancelRunRequest.newBuilder().setRunId(run[0]).build(), TIMEOUT);
                    reservations.release(reservation, TIMEOUT);
                    runs.close();
                    reservations.close();
                  });
            });
    long time = System.nanoTime() - start;
    cleanUps.forEach(Runnable::run);
    return time;
  }

  private static final class Started extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }
}
