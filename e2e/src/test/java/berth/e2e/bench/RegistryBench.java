package berth.e2e.bench;

import static berth.e2e.bench.Comparison.number;
import static berth.e2e.bench.Comparison.percentile;

import berth.rpc.Address;
import berth.v1.ListServersRequest;
import berth.v1.ListServersResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.ManagedChannel;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Loads a registry with simulated servers, each with a connection of its own and a heartbeat every
 * two seconds, and measures what that costs and how fast it answers meanwhile; then asks RPyC's
 * registry, of as many servers, the same question. {@code scripts/bench.sh} runs it.
 */
final class RegistryBench {
  private static final int MATCHING = 50;
  private static final int QUERIES = 500;
  private static final int WATCHERS = 10;
  private static final int WARM_UP_SECONDS = 15;
  private static final double LIST_TARGET_MILLIS = 20;
  private static final double CHANGE_TARGET_MILLIS = 100;
  private static final double MEMORY_TARGET = 300;

  private final Address registry;
  private final long pid;
  private final int count;
  private final int seconds;
  private final ConcurrentLinkedQueue<Long> changeNanos = new ConcurrentLinkedQueue<>();
  private final ManagedChannel watching;
  private volatile boolean measuring;
  private long[] berthQueries = {};

  private RegistryBench(Address registry, long pid, int count, int seconds) {
    this.registry = registry;
    this.pid = pid;
    this.count = count;
    this.seconds = seconds;
    this.watching = SimulatedServers.channel(registry);
  }

  /** Arguments: address and pid of the registry, servers, seconds, script of the other, or -. */
  public static void main(String[] args) throws Exception {
    RegistryBench bench =
        new RegistryBench(
            Address.parse(args[0], 0),
            Long.parseLong(args[1]),
            Integer.parseInt(args[2]),
            Integer.parseInt(args[3]));
    bench.run(args[4]);
    System.exit(0);
  }

  private void run(String otherScript) throws Exception {
    long start = System.nanoTime();
    try (SimulatedServers servers = new SimulatedServers(registry, count, MATCHING)) {
      servers.register();
      System.out.printf(
          "%,d servers registered in %s s%n", count, number((System.nanoTime() - start) / 1e9));
      watch(servers);
      TimeUnit.SECONDS.sleep(WARM_UP_SECONDS);
      query(QUERIES);
      measure(servers);
    }
    watching.shutdownNow();
    if (!otherScript.equals("-")) {
      compare(otherScript);
    }
  }

  private void measure(SimulatedServers servers) throws Exception {
    double cpuBefore = cpuSeconds(pid);
    long start = System.nanoTime();
    long beatsBefore = servers.answered();
    measuring = true;
    List<Long> nanos = new ArrayList<>();
    while (System.nanoTime() - start < TimeUnit.SECONDS.toNanos(seconds)) {
      for (long time : query(20)) {
        nanos.add(time);
      }
      TimeUnit.MILLISECONDS.sleep(400);
    }
    measuring = false;
    double elapsed = (System.nanoTime() - start) / 1e9;
    berthQueries = array(nanos);
    double beats = (servers.answered() - beatsBefore) / elapsed;
    System.out.printf(
        "heartbeats answered: %s a second, %s of them with news; failed streams: %d%n",
        number(beats), "1 in " + SimulatedServers.NEWS_EVERY, servers.failures());
    System.out.printf(
        "registry: %s %% of a core%n", number((cpuSeconds(pid) - cpuBefore) / elapsed * 100));
    Memory memory = Memory.of(pid);
    System.out.printf(
        "registry: RSS %s; target under %s MB: %s%n",
        memory, number(MEMORY_TARGET), verdict(memory.resident() < MEMORY_TARGET));
    print("ListServers with a filter, " + MATCHING + " found", berthQueries, LIST_TARGET_MILLIS);
    print("change sent to change seen by a watcher", array(changeNanos), CHANGE_TARGET_MILLIS);
  }

  private static void print(String what, long[] nanos, double target) {
    System.out.printf(
        "%s: p50 %s ms, p99 %s ms of %,d; target under %s ms: %s%n",
        what,
        number(percentile(50, nanos)),
        number(percentile(99, nanos)),
        nanos.length,
        number(target),
        verdict(percentile(99, nanos) < target));
  }

  private static String verdict(boolean met) {
    return met ? "met" : "MISSED";
  }

  private long[] query(int times) {
    ManagedChannel channel = SimulatedServers.channel(registry);
    try {
      var stub = RegistryServiceGrpc.newBlockingStub(channel);
      ListServersRequest request =
          ListServersRequest.newBuilder()
              .setFilter(ServerFilter.newBuilder().setService("tensorflow").putLabels("room", "a"))
              .build();
      long[] nanos = new long[times];
      for (int i = 0; i < times; i++) {
        long start = System.nanoTime();
        ListServersResponse response = stub.listServers(request);
        nanos[i] = System.nanoTime() - start;
        if (response.getServersCount() != MATCHING) {
          throw new IllegalStateException(response.getServersCount() + " found, not " + MATCHING);
        }
        // The first has connected.
        if (i == 0) {
          start = System.nanoTime();
          stub.listServers(request);
          nanos[i] = System.nanoTime() - start;
        }
      }
      return nanos;
    } finally {
      channel.shutdownNow();
    }
  }

  private void watch(SimulatedServers servers) throws InterruptedException {
    CountDownLatch complete = new CountDownLatch(WATCHERS);
    for (int i = 0; i < WATCHERS; i++) {
      RegistryServiceGrpc.newStub(watching)
          .watchServers(
              WatchServersRequest.getDefaultInstance(),
              new StreamObserver<>() {
                @Override
                public void onNext(WatchServersResponse response) {
                  long now = System.nanoTime();
                  if (response.getComplete()) {
                    complete.countDown();
                  }
                  for (Server server : response.getServersList()) {
                    servers
                        .sentAt(server)
                        .filter(sent -> measuring)
                        .ifPresent(sent -> changeNanos.add(now - sent));
                  }
                }

                @Override
                public void onError(Throwable failure) {
                  if (!watching.isShutdown()) {
                    System.err.println("a watch failed: " + failure);
                  }
                }

                @Override
                public void onCompleted() {}
              });
    }
    if (!complete.await(60, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the watchers were not told of all servers in a minute");
    }
  }

  private void compare(String script) throws Exception {
    Process process =
        new ProcessBuilder(
                "/usr/bin/python3",
                script,
                Integer.toString(count),
                Integer.toString(MATCHING),
                Integer.toString(QUERIES))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
    if (process.waitFor() != 0) {
      throw new IllegalStateException("the other registry failed");
    }
    long[] other = output.lines().mapToLong(line -> Long.parseLong(line) * 1000).toArray();
    Comparison comparison = new Comparison("RPyC");
    for (int percent : new int[] {50, 99}) {
      comparison.millis(
          "servers of a service, p" + percent,
          percentile(percent, other),
          percentile(percent, berthQueries));
    }
    System.out.printf("%nRPyC's registry, idle, by UDP; Berth's under the load above:%n");
    comparison.print();
    System.out.println(
        "RPyC answers with names and ports only, at most some eighty, and knows a dead server for"
            + " four minutes.");
  }

  private static double cpuSeconds(long pid) throws IOException {
    String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
  }

  private static long[] array(Iterable<Long> values) {
    List<Long> list = new ArrayList<>();
    values.forEach(list::add);
    return list.stream().mapToLong(Long::longValue).toArray();
  }
}
