package berth.e2e.soak;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Clusters and runs on several servers, while everything is killed, stopped, cut off and cancelled
 * at random; and somebody who sees whether all goes as it should. {@code scripts/soak.sh} runs it.
 *
 * <p>Each program proves that it alone has its GPUs, and writes down what it does ({@code
 * soaked.py}); {@link SoakWatch} says what must never be, {@link ClusterTruth} how clusters may
 * end, {@link Printed} what must be read of them, {@link SoakLeftovers} what must be gone at the
 * end.
 */
final class Soak {
  private static final Duration SETTLE = Duration.ofSeconds(90);
  private static final Duration LOOK = Duration.ofSeconds(2);

  /**
   * How it went.
   *
   * @param left what is left behind
   */
  record Result(Tally tally, List<String> left) {
    boolean well() {
      return tally.violations().isEmpty() && left.isEmpty();
    }
  }

  private final Path folder;
  private final Duration time;
  private final Random random;
  private final Pace pace;
  private final Calm calm = new Calm();
  private final Tally tally;
  private final long start = System.nanoTime();

  /**
   * @param folder for everything
   * @param time until all is calm
   */
  Soak(Path folder, Duration time, long seed, Pace pace) {
    this.folder = folder;
    this.time = time;
    this.random = new Random(seed);
    this.pace = pace;
    this.tally = new Tally(folder.resolve("soak.log"));
  }

  /** Arguments: minutes, and a seed if it is to be that of an earlier one. */
  public static void main(String[] args) throws Exception {
    long minutes = Long.parseLong(args[0]);
    long seed = args.length > 1 ? Long.parseLong(args[1]) : new Random().nextLong();
    Path folder = Files.createTempDirectory("berth-soak").toRealPath();
    System.out.printf("Soaking for %d min, seed %d%n", minutes, seed);
    Result result = new Soak(folder, Duration.ofMinutes(minutes), seed, Pace.USUAL).run();
    result.left().forEach(left -> System.out.println("LEFT OVER: " + left));
    System.out.print(result.tally().report());
    System.out.println("left over: " + result.left().size());
    if (result.well()) {
      delete(folder);
    } else {
      System.out.println("It went wrong with seed " + seed + "; all files are in " + folder);
      System.exit(1);
    }
  }

  /** Returns when nothing of it runs any more. */
  Result run() throws Exception {
    SoakWorld world = new SoakWorld(folder);
    Thread onSignal = new Thread(() -> interrupted(world));
    Runtime.getRuntime().addShutdownHook(onSignal);
    try {
      Result result = run(world);
      Runtime.getRuntime().removeShutdownHook(onSignal);
      return result;
    } finally {
      end(world);
    }
  }

  // Ctrl-C: nothing may be left, and nobody wants to know what goes wrong meanwhile.
  private void interrupted(SoakWorld world) {
    tally.end();
    calm.begin();
    end(world);
    try {
      delete(folder);
    } catch (IOException e) {
      System.err.println(folder + " is left: " + e);
    }
  }

  private static void end(SoakWorld world) {
    world.close();
    try {
      SoakLeftovers.removeControlGroups(world);
    } catch (IOException e) {
      System.err.println("control groups are left: " + e);
    }
  }

  private Result run(SoakWorld world) throws Exception {
    SoakParts parts =
        new SoakParts(
            world, new Witness(folder.resolve("witness")), new SoakTargets(), tally, calm, pace);
    ExecutorService threads = Executors.newCachedThreadPool();
    ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);
    try {
      SoakWatch watch = new SoakWatch(parts);
      timer.scheduleWithFixedDelay(
          () -> guarded("looking", watch::look), 1, LOOK.toSeconds(), TimeUnit.SECONDS);
      timer.scheduleAtFixedRate(this::printLine, 1, 1, TimeUnit.MINUTES);
      List<Future<?>> busy = new ArrayList<>();
      SoakFaults faults = new SoakFaults(parts, nextRandom());
      busy.add(threads.submit(() -> guarded("breaking", faults::run)));
      begin(parts, threads, busy);
      calm.await(time);
      awaitSomethingOfEverything();
      calm.begin();
      for (Future<?> each : busy) {
        each.get();
      }
      List<String> left = leftovers(world);
      watch.look();
      return new Result(tally, left);
    } finally {
      timer.shutdownNow();
      threads.shutdownNow();
    }
  }

  // A short soak on a busy machine may be over before anything has ended.
  private void awaitSomethingOfEverything() throws InterruptedException {
    long deadline = System.nanoTime() + SETTLE.toNanos();
    while ((tally.clusters() == 0 || tally.runs() == 0 || tally.allFaults() == 0)
        && System.nanoTime() - deadline < 0) {
      calm.await(LOOK);
    }
  }

  private void begin(SoakParts parts, ExecutorService threads, List<Future<?>> busy) {
    SoakClusters clusters = new SoakClusters(parts);
    SoakRuns runs = new SoakRuns(parts);
    AtomicInteger numbers = new AtomicInteger();
    repeat(pace.supervised(), "s", clusters::supervised, numbers, threads, busy);
    repeat(pace.attached(), "a", clusters::attached, numbers, threads, busy);
    repeat(pace.runs(), "r", runs::attached, numbers, threads, busy);
    repeat(pace.detachedRuns(), "d", runs::detached, numbers, threads, busy);
  }

  private interface Round {
    void play(String name, Random random) throws Exception;
  }

  private void repeat(
      int lanes,
      String prefix,
      Round round,
      AtomicInteger numbers,
      ExecutorService threads,
      List<Future<?>> busy) {
    for (int i = 0; i < lanes; i++) {
      Random own = nextRandom();
      busy.add(
          threads.submit(
              () -> {
                while (!calm.hasBegun()) {
                  String name = prefix + numbers.incrementAndGet();
                  guarded(name, () -> round.play(name, own));
                }
              }));
    }
  }

  private Random nextRandom() {
    return new Random(random.nextLong());
  }

  private interface Work {
    void carryOut() throws Exception;
  }

  private void guarded(String what, Work work) {
    try {
      work.carryOut();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (Exception | Error e) {
      StringWriter trace = new StringWriter();
      e.printStackTrace(new PrintWriter(trace));
      tally.note(trace.toString());
      tally.violation("the soak itself failed at " + what + ": " + e);
    }
  }

  private void printLine() {
    System.out.println(tally.line(TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start)));
  }

  private List<String> leftovers(SoakWorld world) throws Exception {
    world.awaitServers();
    SoakLeftovers leftovers = new SoakLeftovers(world);
    long begun = System.nanoTime();
    List<String> left = leftovers.whileRunning();
    // What nobody wanted any more ends with its lease.
    while (!left.isEmpty() && System.nanoTime() - begun < SETTLE.toNanos()) {
      TimeUnit.MILLISECONDS.sleep(LOOK.toMillis());
      left = leftovers.whileRunning();
    }
    List<String> all = new ArrayList<>(left);
    world.stopAll().forEach(tally::violation);
    all.addAll(leftovers.afterwards());
    world.all().stream()
        .flatMap(server -> server.complaints().stream())
        .forEach(complaint -> tally.violation("in a log: " + complaint));
    return all;
  }

  private static void delete(Path folder) throws IOException {
    List<Path> all;
    try (Stream<Path> found = Files.walk(folder)) {
      all = found.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path each : all) {
      Files.delete(each);
    }
  }
}
