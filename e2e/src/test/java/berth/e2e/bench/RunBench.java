package berth.e2e.bench;

import static berth.e2e.bench.Comparison.percentile;

import berth.e2e.bench.Job.Net;
import berth.e2e.bench.Job.Outcome;
import berth.rpc.Address;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/**
 * Compares {@code RunCode} with {@code docker run --rm} of the same image on the same engine.
 * {@code scripts/bench.sh} runs it.
 */
final class RunBench {
  private static final int WARM_UPS = 40;
  private static final int TIMES = 20;
  private static final int CLIENTS = 8;
  private static final int GPUS = 4;
  private static final long OUTPUT_BYTES = 200_000_000;
  private static final List<String> NO_OP = List.of("true");

  private static final String P50 = ", p50";
  private static final String FIRST_BYTE = "first byte of echo, ";
  private static final String LINES = "200 MB in lines of 100 bytes";
  private static final String BLOCKS = "200 MB in writes of 64 KiB";
  private static final double OUTPUT_TARGET = 1.5;

  /** A {@code berthd}; the image is empty if it runs plain processes. */
  private record Server(Address address, long pid, String image) {
    Jobs connect() {
      return new BerthJobs(address, image);
    }
  }

  private final Server containers;
  private final Server processes;
  private final DockerJobs docker;
  private final Comparison comparison = new Comparison("docker");
  private final List<String> notes = new ArrayList<>();

  private RunBench(Server containers, Server processes) {
    this.containers = containers;
    this.processes = processes;
    this.docker = new DockerJobs(containers.image);
  }

  /**
   * Arguments: image, rounds; address and pid of a server with that engine, and of one that runs
   * plain processes.
   */
  public static void main(String[] args) {
    RunBench bench =
        new RunBench(
            new Server(Address.parse(args[2], 0), Long.parseLong(args[3]), args[0]),
            new Server(Address.parse(args[4], 0), Long.parseLong(args[5]), ""));
    int rounds = Integer.parseInt(args[1]);
    bench.warmUp();
    for (int round = 1; round <= rounds; round++) {
      bench.measure("round " + round + " of " + rounds);
    }
    System.out.println();
    bench.comparison.print();
    System.out.printf("(ratio: how many times better Berth is)%n%n");
    bench.notes.forEach(System.out::println);
    bench.judge();
  }

  // A daemon that has served for weeks is compiled.
  private void warmUp() {
    System.err.println("Warming up");
    try (Jobs berth = containers.connect();
        Jobs plain = processes.connect()) {
      for (int i = 0; i < WARM_UPS; i++) {
        berth.run(new Job(Net.HOST, i % 2, NO_OP));
        plain.run(new Job(Net.HOST, i % 2, NO_OP));
      }
      docker.run(new Job(Net.HOST, 0, NO_OP));
    }
  }

  private void measure(String round) {
    try (Jobs berth = containers.connect()) {
      for (Net network : Net.values()) {
        load(round + ", true, network " + network);
        noOps(berth, network);
      }
      for (Net network : Net.values()) {
        load(round + ", first byte, network " + network);
        firstBytes(berth, network);
      }
      load(round + ", output");
      output(LINES, berth, 100);
      output(BLOCKS, berth, 64 << 10);
    }
    load(round + ", many clients");
    manyClients("200 no-op runs", 200, NO_OP);
    manyClients("80 runs of 100 ms", 80, List.of("sleep", "0.1"));
  }

  // The sides take turns, so that what else the machine does meets both.
  private void noOps(Jobs berth, Net network) {
    long[] ofDocker = new long[TIMES];
    long[] without = new long[TIMES];
    long[] with = new long[TIMES];
    for (int i = 0; i < TIMES; i++) {
      ofDocker[i] = docker.run(new Job(network, 0, NO_OP)).nanos();
      without[i] = berth.run(new Job(network, 0, NO_OP)).nanos();
      with[i] = berth.run(new Job(network, 1, NO_OP)).nanos();
    }
    percentiles(noOp(network), ofDocker, without);
    percentiles(noOp(network) + ", 1 GPU", ofDocker, with);
  }

  private static String noOp(Net network) {
    return "true, network " + network;
  }

  private void firstBytes(Jobs berth, Net network) {
    long[] ofDocker = new long[TIMES];
    long[] ofBerth = new long[TIMES];
    Job job = new Job(network, 0, List.of("echo", "x"));
    ToLongFunction<Outcome> time =
        outcome -> {
          expect(2, outcome.bytes());
          return outcome.nanosToFirstByte();
        };
    for (int i = 0; i < TIMES; i++) {
      ofDocker[i] = time.applyAsLong(docker.run(job));
      ofBerth[i] = time.applyAsLong(berth.run(job));
    }
    percentiles(FIRST_BYTE + network, ofDocker, ofBerth);
  }

  private void percentiles(String title, long[] ofDocker, long[] ofBerth) {
    comparison.millis(title + P50, percentile(50, ofDocker), percentile(50, ofBerth));
    comparison.millis(title + ", p95", percentile(95, ofDocker), percentile(95, ofBerth));
  }

  private void output(String title, Jobs berth, int size) {
    Job job = new Job(Net.HOST, 0, List.of("write_output", "" + size, "" + OUTPUT_BYTES));
    comparison.megabytesPerSecond(
        title, megabytesPerSecond(docker, job), megabytesPerSecond(berth, job));
  }

  // Of the whole run, as its caller sees it.
  private static double megabytesPerSecond(Jobs jobs, Job job) {
    Outcome outcome = jobs.run(job);
    expect(OUTPUT_BYTES, outcome.bytes());
    return outcome.bytes() * 1e3 / outcome.nanos();
  }

  private static void expect(long bytes, long found) {
    if (found != bytes) {
      throw new IllegalStateException(bytes + " bytes of output expected, " + found + " came");
    }
  }

  // Docker knows no GPUs: there as many run at once as there are GPUs.
  private void manyClients(String title, int runs, List<String> command) {
    Job job = new Job(Net.HOST, 1, command);
    Semaphore gpus = new Semaphore(GPUS);
    double ofDocker =
        perSecond(
            runs,
            () -> docker,
            jobs -> {
              gpus.acquireUninterruptibly();
              try {
                return jobs.run(job);
              } finally {
                gpus.release();
              }
            });
    comparison.perSecond(title + ", containers", ofDocker, ofServer(title, containers, runs, job));
    comparison.perSecond(title + ", processes", ofDocker, ofServer(title, processes, runs, job));
    int left = docker.leftByBerth();
    notes.add("containers that Berth left after " + title + ": " + left);
  }

  private double ofServer(String title, Server server, int runs, Job job) {
    Memory before = Memory.of(server.pid);
    double perSecond = perSecond(runs, server::connect, jobs -> jobs.run(job));
    notes.add(
        "RSS of berthd with %s around %s: %s before, %s after"
            .formatted(
                server.image.isEmpty() ? "processes" : "containers",
                title,
                before,
                Memory.of(server.pid)));
    return perSecond;
  }

  private static double perSecond(int runs, Supplier<Jobs> jobs, Function<Jobs, Outcome> work) {
    AtomicInteger left = new AtomicInteger(runs);
    List<Jobs> clients = new ArrayList<>();
    ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
    try {
      for (int i = 0; i < CLIENTS; i++) {
        clients.add(jobs.get());
      }
      long start = System.nanoTime();
      List<CompletableFuture<Void>> all =
          clients.stream()
              .map(
                  client ->
                      CompletableFuture.runAsync(
                          () -> {
                            while (left.getAndDecrement() > 0) {
                              work.apply(client);
                            }
                          },
                          threads))
              .toList();
      all.forEach(CompletableFuture::join);
      return runs * 1e9 / (System.nanoTime() - start);
    } finally {
      clients.forEach(Jobs::close);
      threads.shutdown();
    }
  }

  private static void load(String part) {
    try {
      String load = Files.readString(Path.of("/proc/loadavg")).split(" ")[0];
      System.out.printf("load average %s before %s%n", load, part);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void judge() {
    System.out.println();
    for (Net network : Net.values()) {
      judgeTime("true, network " + network, noOp(network) + P50);
    }
    for (Net network : Net.values()) {
      judgeTime(FIRST_BYTE + network, FIRST_BYTE + network + P50);
    }
    for (String title : List.of(LINES, BLOCKS)) {
      double ratio = comparison.ratio(title);
      System.out.printf(
          "target %s: %s: at least %s times docker's throughput (%s)%n",
          ratio >= OUTPUT_TARGET ? "met" : "missed",
          title,
          OUTPUT_TARGET,
          Comparison.number(ratio));
    }
  }

  private void judgeTime(String what, String title) {
    double times = 1 / comparison.ratio(title);
    System.out.printf(
        "target %s: %s: p50 at most 1.0 times docker's (%s)%n",
        times <= 1 ? "met" : "missed", what, Comparison.number(times));
  }
}
