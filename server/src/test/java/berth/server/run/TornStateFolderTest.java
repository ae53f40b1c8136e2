package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuMonitor;
import berth.host.lock.GpuWish;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.cluster.Clusters;
import berth.server.cluster.SampleClusters;
import berth.server.cluster.SupervisorSandbox;
import berth.server.reservation.Lifetime;
import berth.server.reservation.Reservation;
import berth.server.reservation.ReservationListener;
import berth.server.reservation.ReservationRequest;
import berth.server.reservation.Reservations;
import berth.server.run.RunRecord.Phase;
import berth.server.run.process.ProcessRuntime;
import berth.v1.GpuRequest;
import berth.v1.RunCodeRequest;
import berth.v1.WaitTime;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Every file of a state folder with some of everything is emptied, cut at 64 lengths or at each of
 * fewer, and filled with garbage, one at a time: all that {@code berthd} opens, in its order,
 * opens, everything else is as it was, and the log names the file. {@code TornStateTest} does a few
 * of these to the whole daemon.
 */
@Tag("slow")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class TornStateFolderTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final int CUTS = 64;
  private static final Reservation.Owner ADA = new Reservation.Owner("ada", "laptop");

  @TempDir private Path folder;
  private Path state;
  private String digest;
  private boolean frozen;

  @BeforeEach
  void build() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    state = OneServer.state(folder);
    describe("");
    try (Server server = new Server()) {
      // Only what happens before its eyes takes a GPU out of service.
      describe("  xid 1 79\n");
      await().atMost(PATIENCE).until(() -> Files.exists(state.resolve("gpu-outages/GPU-1")));
      byte[] tar = new Tars().file("hello.sh", "echo hello\n").bytes();
      digest = Tars.sha256(tar);
      try (Bundles.Upload upload = server.runs.bundles().begin(digest)) {
        upload.write(ByteBuffer.wrap(tar));
        upload.finish();
      }
      for (String script :
          List.of("echo one; echo two >&2; sleep 0.1; echo three", "sh hello.sh")) {
        Run over = server.runs.submit(command(script).setBundle(digest).build()).run();
        over.cleaned().get(60, TimeUnit.SECONDS);
      }
      Run goesOn = server.runs.submit(command("echo begun; exec sleep 1000").build()).run();
      await().atMost(PATIENCE).until(() -> phase(goesOn) == Phase.RUNNING);
      await().atMost(PATIENCE).until(() -> output(server, goesOn).equals("begun\n"));
      reserve(server.reservations);
      for (int i = 0; i < 2; i++) {
        Run waits =
            server
                .runs
                .submit(
                    command("echo never")
                        .setGpus(GpuRequest.newBuilder().setCount(1))
                        .setBundle(digest)
                        .build())
                .run();
        await().atMost(PATIENCE).until(() -> waits.view().ahead().isPresent());
      }
      SampleClusters.make(state, server.durable);
    }
    // From now on nobody ends what runs, so that it is there for each damage.
    frozen = true;
  }

  @AfterEach
  void end() {
    frozen = false;
    try (Server server = new Server()) {
      for (Run run : server.runs.all()) {
        if (!run.over()) {
          server.runs.cancel(run.id(), ADA, true);
        }
        run.cleaned().orTimeout(60, TimeUnit.SECONDS).join();
      }
      server
          .reservations
          .overview()
          .reservations()
          .forEach(held -> server.reservations.release(held.id()));
    }
  }

  @Test
  void whicheverFileIsDamagedEverythingElseIsAsItWasAndTheLogNamesIt() throws Exception {
    // What a restart writes anew is written.
    known();
    Map<String, String> before = known();
    assertThat(before.toString()).contains("QUEUED", "RUNNING", "three", "GPU-1", "c-0000000003");
    Map<Path, byte[]> whole = snapshot();
    Set<String> kinds = new HashSet<>();
    int opened = 0;
    for (Map.Entry<Path, byte[]> each : whole.entrySet()) {
      Path file = each.getKey();
      // Those of clusters, and what is read only at a start, are cut at more lengths by
      // TornClustersTest and RunStoreTest.
      int most = file.startsWith("clusters") || file.endsWith("content") ? 6 : CUTS;
      // The second of a kind, such as another run that waits, is only emptied and cut in half.
      boolean first = kinds.add(file.toString().replace(ownerOf(file), kindOf(before, file)));
      for (Damage damage : damages(file, each.getValue(), first ? most : 2)) {
        Files.write(state.resolve(file), damage.bytes);
        Map<String, String> after = new TreeMap<>();
        String said = log(() -> after.putAll(known()));
        opened++;

        String owner = ownerOf(file);
        Map<String, String> others = new TreeMap<>(before);
        others.keySet().removeIf(id -> id.equals(owner));
        assertThat(after)
            .as("with %s %s: %s", file, damage.what, said)
            .containsAllEntriesOf(others);
        if (isToBeNamed(before, file, damage, each.getValue())) {
          assertThat(said).as("with %s %s", file, damage.what).contains(named(file));
        }
        restore(whole);
      }
    }
    assertThat(known()).isEqualTo(before);
    // Nobody waits at a server that drains, so this comes last: the mark has no content.
    Files.write(state.resolve("draining"), new byte[] {1, 2, 3});
    assertThat(known()).containsEntry("draining", "true");
    Files.delete(state.resolve("draining"));
    System.out.println(opened + " damages of " + whole.size() + " files");
  }

  private record Damage(String what, byte[] bytes) {}

  private static List<Damage> damages(Path file, byte[] good, int most) {
    List<Damage> all = new ArrayList<>();
    int cuts = Math.min(most, good.length);
    for (int i = 0; i < cuts; i++) {
      int length = (int) ((long) good.length * i / cuts);
      all.add(new Damage("cut to " + length, Arrays.copyOf(good, length)));
    }
    byte[] garbage = new byte[Math.max(16, good.length)];
    new Random(file.toString().hashCode()).nextBytes(garbage);
    all.add(new Damage("filled with garbage", garbage));
    return all;
  }

  /**
   * What nobody can know to be damaged: files that say something by being there and have no content
   * ({@code lock}, {@code draining}, {@code complete}, {@code once}), what programs have written,
   * other than less of it, and numbers of processes that could be those of others. What is to be
   * run is read, and named, when it is started: see {@code RunStoreTest}. What a supervisor reads
   * is its own copy, written anew before each start.
   */
  private boolean isToBeNamed(Map<String, String> known, Path file, Damage damage, byte[] good) {
    String name = file.getFileName().toString();
    String path = file.toString();
    if (good.length == 0 || name.equals("lock") || path.matches("runs/[^/]*/(work|io|mark)/.*")) {
      return false;
    }
    if (path.startsWith("clusters/")) {
      boolean ended = Files.exists(state.resolve(file).getParent().resolveSibling("end"));
      return !path.contains("/input/") && !name.equals("log") && !(ended && name.equals("status"));
    }
    return switch (name) {
      case "content", "pid" -> false;
      case "stdout", "stderr" ->
          damage.bytes.length < good.length
              && known.get(ownerOf(file)).startsWith(Phase.CLEANED.name());
      case "order" -> damage.bytes.length % 16 != 0 || damage.bytes.length == good.length;
      default -> true;
    };
  }

  // Which of two streams is short can only be told if the order says so.
  private static String named(Path file) {
    String name = file.getFileName().toString();
    return name.equals("stdout") || name.equals("stderr")
        ? file.getParent().toString()
        : file.toString();
  }

  /** Whom a file is of, as {@link #known} names it. */
  private static String ownerOf(Path file) {
    String name = file.getFileName().toString();
    return switch (file.getName(0).toString()) {
      case "runs", "clusters", "gpu-outages", "bundles" -> file.getName(1).toString();
      default -> name.replaceAll("\\..*", "");
    };
  }

  private static String kindOf(Map<String, String> known, Path file) {
    return known.getOrDefault(ownerOf(file), "").replaceAll("(?s)(-c-| ).*", "");
  }

  /** All that a server knows that opens the folder, by id. */
  private Map<String, String> known() {
    Map<String, String> known = new TreeMap<>();
    try (Server server = new Server()) {
      for (Run run : server.runs.all()) {
        RunRecord record = run.view().record();
        known.put(
            run.id(),
            record.phase()
                + " "
                + record.number()
                + record.ended().map(ended -> " " + ended.reason() + " " + ended.exitCode())
                + run.spec().command()
                + output(server, run));
      }
      for (Reservation held : server.reservations.overview().reservations()) {
        known.put(
            held.id(), held.gpus() + " until " + held.expires().map(Reservation.Expiry::nanos));
      }
      for (Gpu gpu : server.gpus.newest().gpus()) {
        known.put(gpu.uuid(), gpu.health().toString());
      }
      known.put("draining", "" + server.reservations.overview().draining());
      known.put(digest, unpacked(server));
      known.putAll(SampleClusters.shown(server.clusters));
    }
    return known;
  }

  private String unpacked(Server server) {
    Path into = folder.resolve("unpacked");
    try {
      server.runs.unpackBundle(digest, into);
      return Files.readString(into.resolve("hello.sh"));
    } catch (BerthException | IOException e) {
      return e.getMessage();
    } finally {
      try {
        WorkFiles.delete(into);
      } catch (IOException e) {
        // There is another one for the next time.
      }
    }
  }

  private String output(Server server, Run run) {
    if (!Files.exists(run.folder().spool())) {
      return "";
    }
    StringBuilder text = new StringBuilder();
    try (Spool spool = server.runs.pastOutput(run)) {
      Optional<Spool.Chunk> next;
      for (long at = 0; (next = spool.read(at, 1000)).isPresent(); ) {
        at += next.get().data().remaining();
        text.append(StandardCharsets.UTF_8.decode(next.get().data()));
      }
    }
    return text.toString();
  }

  private void describe(String second) throws IOException {
    String gpu = "\n  memory 81920 0\n  processes\n";
    Path next =
        Files.writeString(
            folder.resolve("gpus.new"), "gpu GPU-0" + gpu + "gpu GPU-1" + gpu + second);
    Files.move(next, folder.resolve("gpus.txt"), StandardCopyOption.ATOMIC_MOVE);
  }

  private static Phase phase(Run run) {
    return run.view().record().phase();
  }

  private static RunCodeRequest.Builder command(String script) {
    return RunCodeRequest.newBuilder()
        .addAllCommand(List.of("sh", "-c", script))
        .setWait(WaitTime.newBuilder().setForever(true))
        .setDetached(true);
  }

  private static void reserve(Reservations reservations) throws Exception {
    CompletableFuture<Reservation> granted = new CompletableFuture<>();
    reservations.reserve(
        new ReservationRequest(
            Optional.of(new GpuWish(1, List.of("0"), 0, "")),
            1,
            Optional.empty(),
            new Lifetime.Lasting(Duration.ofHours(2)),
            ADA,
            "for a test",
            ""),
        new ReservationListener() {
          @Override
          public void queued(int ahead, String because) {}

          @Override
          public void granted(Reservation reservation) {
            granted.complete(reservation);
          }

          @Override
          public void failed(BerthException why) {
            granted.completeExceptionally(why);
          }

          @Override
          public void ended() {}
        });
    granted.get(60, TimeUnit.SECONDS);
  }

  private Map<Path, byte[]> snapshot() throws IOException {
    Map<Path, byte[]> all = new TreeMap<>();
    for (Path file : files()) {
      all.put(state.relativize(file), Files.readAllBytes(file));
    }
    return all;
  }

  // The pipes, and the files that others have open, stay the same ones.
  private void restore(Map<Path, byte[]> whole) throws IOException {
    Map<Path, byte[]> missing = new HashMap<>(whole);
    for (Path file : files()) {
      byte[] content = missing.remove(state.relativize(file));
      if (content == null) {
        Files.delete(file);
      } else if (!Arrays.equals(content, Files.readAllBytes(file))) {
        Files.write(file, content);
      }
    }
    for (Map.Entry<Path, byte[]> each : missing.entrySet()) {
      Path file = state.resolve(each.getKey());
      Files.createDirectories(file.getParent());
      Files.write(file, each.getValue());
    }
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> all = Files.walk(state)) {
      return all.filter(file -> Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)).toList();
    }
  }

  // The tests' logger prints to where System.err leads.
  private static String log(Runnable task) {
    PrintStream usual = System.err;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
    try {
      task.run();
    } finally {
      System.setErr(usual);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  /** What a {@code berthd} opens, in its order, but for what others call it by. */
  private final class Server implements AutoCloseable {
    final DurableFiles durable;
    final GpuMonitor gpus;
    final Reservations reservations;
    final Runs runs;
    final Clusters clusters;

    Server() {
      Vitals vitals = new Vitals();
      Metrics metrics = new Metrics();
      durable = new DurableFiles(vitals);
      gpus =
          GpuMonitor.ofSimulation(
              folder.resolve("gpus.txt").toString(),
              "",
              new GpuMonitor.Timing(Duration.ofSeconds(1), Duration.ofSeconds(60)),
              new GpuMonitor.Host(state, durable, vitals));
      try {
        gpus.awaitFirstSample(PATIENCE);
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      // A process that the one before was just starting has its descriptors, and so its lock, for
      // a moment.
      reservations =
          await()
              .atMost(PATIENCE)
              .pollDelay(Duration.ZERO)
              .ignoreException(BerthException.class)
              .until(() -> OneServer.reservations(folder, gpus, durable, metrics), held -> true);
      runs =
          Runs.open(
              OneServer.settings(folder, Disks.PLENTY),
              reservations,
              gpus,
              new Freezable(new ProcessRuntime(id -> Runs.folder(state, id), true)),
              durable,
              vitals,
              metrics);
      clusters =
          Clusters.open(
              new Clusters.Settings(
                  "gpu01",
                  state,
                  List.of(),
                  SupervisorSandbox.of(new UidRange(2_100_000_000, 2_100_009_999), List.of()),
                  TornStateFolderTest::noRegistries,
                  Clusters.Timing.usual()),
              durable,
              runs::unpackBundle,
              metrics);
    }

    @Override
    public void close() {
      clusters.close();
      runs.close();
      reservations.close();
      gpus.close();
      durable.close();
      // One that was just writing something down ends with that.
      await().atMost(PATIENCE).pollDelay(Duration.ZERO).until(Server::isStill);
    }

    private static boolean isStill() {
      return Thread.getAllStackTraces().keySet().stream()
          .map(Thread::getName)
          .noneMatch(name -> name.startsWith("run-run-"));
    }
  }

  // So that no supervisor is started.
  private static List<Address> noRegistries() {
    throw new BerthException(Reason.UNAVAILABLE, "there is none in this test");
  }

  /** While it is frozen, what runs goes on for the next server whatever this one does to it. */
  private final class Freezable extends ForwardingRuntime {
    private final Map<String, CompletableFuture<Exit>> ends = new ConcurrentHashMap<>();

    Freezable(RunEngine real) {
      super(real);
    }

    @Override
    public void signal(String runId, String signal) {
      if (frozen) {
        end(runId).complete(new Exit(137, false, Optional.empty(), ""));
      } else {
        super.signal(runId, signal);
      }
    }

    @Override
    public Exit await(String runId) throws InterruptedException {
      try {
        return frozen ? end(runId).get() : super.await(runId);
      } catch (ExecutionException e) {
        throw new AssertionError(e);
      }
    }

    private CompletableFuture<Exit> end(String runId) {
      return ends.computeIfAbsent(runId, id -> new CompletableFuture<>());
    }

    @Override
    public void remove(String runId) {
      if (!frozen) {
        super.remove(runId);
      }
    }

    @Override
    public void reap(Predicate<String> knownRun) {
      if (!frozen) {
        super.reap(knownRun);
      }
    }
  }
}
