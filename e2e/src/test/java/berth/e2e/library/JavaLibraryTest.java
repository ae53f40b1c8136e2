package berth.e2e.library;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;
import static org.awaitility.Awaitility.await;

import berth.client.Berth;
import berth.client.DetachedRun;
import berth.client.GpuReservation;
import berth.client.HeldGpu;
import berth.client.RunHandle;
import berth.client.RunInfo;
import berth.client.RunResult;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import berth.client.spec.GpuServer;
import berth.client.spec.ReservationSpec;
import berth.client.spec.RunSpec;
import berth.client.spec.RunUser;
import berth.client.spec.ServerGpu;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.RunServer;
import berth.e2e.fixture.TinyWheel;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Reservation;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs in Java, a registry and two servers that registered themselves. */
class JavaLibraryTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  @TempDir private static Path folder;
  private static Daemon registry;
  private static RunServer gpu01;
  private static RunServer gpu02;

  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
  private Berth berth;

  @BeforeAll
  static void start() throws IOException {
    registry = Daemon.start(folder, "berth-registry", "--lease", "2s");
    gpu01 = server("gpu01", 1);
    gpu02 = server("gpu02", 2);
  }

  @BeforeEach
  void connect() {
    // Of equal registries, one that is not there does no harm.
    berth = Berth.connect("127.0.0.1:1", registry.address());
    // All is free, and the registry has heard of that.
    await()
        .atMost(PATIENCE)
        .until(() -> berth.gpus().stream().filter(ServerGpu::free).count() == 3);
  }

  @AfterEach
  void leavesNothing() {
    berth.close();
    gpu01.assertNothingLeft();
    gpu02.assertNothingLeft();
  }

  @AfterAll
  static void stop() {
    gpu01.close();
    gpu02.close();
    registry.close();
  }

  @Test
  void servesTheServersAndTheirGpus() {
    assertThat(berth.servers())
        .extracting(GpuServer::name, GpuServer::freeGpus, GpuServer::canRun, GpuServer::runtime)
        .containsExactly(tuple("gpu01", 1, true, "process"), tuple("gpu02", 2, true, "process"));
    assertThat(berth.gpus())
        .extracting(gpu -> gpu.server() + " " + gpu.index() + " " + gpu.model())
        .containsExactly(
            "gpu01 0 Simulated A100 80GB",
            "gpu02 0 Simulated A100 80GB",
            "gpu02 1 Simulated A100 80GB");
  }

  @Test
  void runsAScriptWhereItsGpusAreFree() throws Exception {
    Path script =
        Files.writeString(
            folder.resolve("train.sh"), "echo \"$1 on $NV_GPU of $BERTH_SERVER\"; echo done >&2\n");

    RunResult result =
        berth.run(
            RunSpec.builder().script(script.toString(), "resnet").gpus(2).build(), lines::add);

    assertThat(lines).containsExactlyInAnyOrder("resnet on 0,1 of gpu02", "done");
    assertThat(result.succeeded()).isTrue();
    assertThat(result.server()).isEqualTo("gpu02");
    assertThat(result.gpus()).extracting(HeldGpu::index).containsExactly(0, 1);
    assertThat(result.wallTime()).isPositive();
    assertThat(gpu02.get(result.runId()).getExited().getExitCode()).isZero();
  }

  @Test
  void usesOneServerWithoutARegistryAndFetchesWhatARunHasMade() throws Exception {
    Path fetched = folder.resolve("fetched");
    try (Berth one = Berth.connectTo(berth.servers().get(1).address())) {
      assertThat(one.servers()).extracting(GpuServer::name).containsExactly("gpu02");
      assertThat(one.gpus())
          .hasSize(2)
          .allMatch(gpu -> gpu.free() && gpu.load().temperatureCelsius().isPresent());

      RunResult result =
          one.run(
              shell(
                      "id -u; id -g; trap 'echo warned > saved; exit 0' USR1; while :; do sleep"
                          + " 0.02; done")
                  .exactGpus("1")
                  .user(new RunUser(1234, 2345))
                  .timeLimit("20s")
                  .signalBeforeTimeLimit("USR1", Duration.ofSeconds(19))
                  .build(),
              lines::add);

      assertThat(lines).startsWith("1234", "2345");
      assertThat(result.succeeded()).as(result.toString()).isTrue();
      assertThat(result.gpus()).extracting(HeldGpu::index).containsExactly(1);
      assertThat(one.fetchFiles(result.runId(), fetched, "saved").count()).isOne();
      assertThat(fetched.resolve("saved")).hasContent("warned\n");
      assertThat(one.findRun(result.runId()).result()).map(RunResult::exitCode).contains(0);

      one.removeRun(result.runId());
      assertThat(one.runs().runs()).extracting(RunInfo::runId).doesNotContain(result.runId());
    }
    DetachedRun detached = berth.runDetached(shell("sleep 60").servers("gpu01").build());
    berth.cancelRun(detached.runId());
    await().atMost(PATIENCE).until(() -> gpu01.get(detached.runId()).hasExited());
  }

  @Test
  void theExitCodeOfAProgramIsNoFailure() {
    RunResult result = berth.run(shell("exit 7").build(), lines::add);

    assertThat(result.end()).isEqualTo(RunResult.End.FINISHED);
    assertThat(result.exitCode()).isEqualTo(7);
    assertThat(result.succeeded()).isFalse();
    assertThat(result.gpus()).isEmpty();
  }

  @Test
  void aProgramWhoseTimeIsOverIsEnded() {
    RunResult result =
        berth.run(shell("sleep 60").timeLimit(Duration.ofMillis(200)).build(), lines::add);

    assertThat(result.end()).isEqualTo(RunResult.End.TIME_LIMIT);
    assertThat(result.exitCode()).isEqualTo(143);
  }

  @Test
  void whatNoServerHasIsAFailure() {
    assertThatThrownBy(() -> berth.run(shell("true").gpus(3).waitAtMost("0s").build(), lines::add))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED));
    assertThatThrownBy(
            () -> berth.run(shell("true").gpus(1).exclude("gpu01", "gpu02").build(), lines::add))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED));
  }

  @Test
  void goesToTheServerThatIsNamedOrNotExcluded() {
    RunSpec.Builder where = shell("echo $BERTH_SERVER").gpus(1);

    berth.run(where.servers("gpu02").build(), lines::add);
    berth.run(shell("echo $BERTH_SERVER").gpus(1).exclude("gpu02").build(), lines::add);

    assertThat(lines).containsExactly("gpu02", "gpu01");
  }

  @Test
  void aRunThatIsCancelledHearsOfItAndFreesItsGpus() throws Exception {
    RunHandle run =
        berth.runAsync(
            shell("trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 0.02; done")
                .gpus(2)
                .build(),
            lines::add);
    assertThat(lines.poll(30, TimeUnit.SECONDS)).isEqualTo("up");
    assertThat(run.server()).contains("gpu02");

    run.cancel();

    RunResult result = run.result().get(30, TimeUnit.SECONDS);
    // The shell has something to say of its child too.
    assertThat(lines).contains("asked");
    assertThat(result.end()).isEqualTo(RunResult.End.CANCELLED);
    assertThat(result.exitCode()).isEqualTo(5);
    assertThat(result.runId()).isEqualTo(run.runId().orElseThrow());
    assertThat(gpu02.held()).isEmpty();
  }

  @Test
  void aRunThatWaitsIsTakenOutOfTheQueue() throws Exception {
    try (GpuReservation held = berth.reserve(reservation(2).build())) {
      RunHandle run = berth.runAsync(shell("echo up").gpus(2).build(), lines::add);
      await().atMost(PATIENCE).until(() -> run.runId().isPresent());

      run.result().cancel(true);

      await().atMost(PATIENCE).until(() -> gpu02.get(run.runId().orElseThrow()).hasExited());
      assertThat(held.ended()).isNotDone();
    }
    assertThat(lines).isEmpty();
  }

  @Test
  void formsAClusterOnAllServers() {
    Map<TaskName, String> printed = new ConcurrentHashMap<>();
    ClusterRequest request =
        ClusterRequest.named("two")
            .task("worker", 2, worker -> worker.command("sh", "-c", "echo $RANK of $WORLD_SIZE"))
            .build();

    try (Cluster cluster =
        berth.cluster(
            request,
            event -> {
              if (event instanceof ClusterEvent.Output output) {
                printed.put(
                    output.task(), new String(output.data(), StandardCharsets.UTF_8).strip());
              }
            })) {
      ClusterResult result = cluster.await();

      assertThat(result.succeeded()).as(result.toString()).isTrue();
      assertThat(result.tasks())
          .extracting(TaskResult::server)
          .containsExactlyInAnyOrder("gpu01", "gpu02");
    }
    assertThat(printed.values()).containsExactlyInAnyOrder("0 of 2", "1 of 2");
  }

  @Test
  void closingEndsAClusterToo() {
    Cluster cluster =
        berth.cluster(
            ClusterRequest.named("long")
                .task("worker", 2, worker -> worker.command("sleep", "1000").gpus(1))
                .build(),
            event -> {});
    cluster.started().join();

    berth.close();

    assertThat(cluster.await().outcome()).isEqualTo(ClusterResult.Outcome.CANCELLED);
  }

  @Test
  void closingEndsWhatWasStartedAndLeavesWhatIsDetached() throws Exception {
    RunHandle attached = berth.runAsync(shell("echo up; sleep 60").gpus(1).build(), lines::add);
    assertThat(lines.poll(30, TimeUnit.SECONDS)).isEqualTo("up");
    CompletableFuture<GpuReservation> waiting = berth.reserveAsync(reservation(2).build());
    DetachedRun detached =
        berth.runDetached(shell("echo one; sleep 60; echo two").servers("gpu02").build());

    berth.close();

    assertThat(attached.result().get().end()).isEqualTo(RunResult.End.CANCELLED);
    assertThat(waiting).isDone();
    berth = Berth.connect(registry.address());
    RunHandle again = berth.attach(detached, lines::add);
    assertThat(lines.poll(30, TimeUnit.SECONDS)).isEqualTo("one");
    assertThat(again.result()).isNotDone();
    again.cancel();
    assertThat(again.result().get(30, TimeUnit.SECONDS).end()).isEqualTo(RunResult.End.CANCELLED);
  }

  @Test
  void aReservationIsRenewedBeyondItsLeaseUsedAndFreed() throws Exception {
    Duration lease = Duration.ofSeconds(3);
    GpuReservation held = berth.reserve(reservation(2).ports(2).lease(lease).build());

    assertThat(held.server()).isEqualTo("gpu02");
    assertThat(held.gpus()).extracting(HeldGpu::index).containsExactly(0, 1);
    assertThat(held.ports()).hasSize(2);
    await().atMost(PATIENCE).until(() -> expiresAfter(held).compareTo(lease.multipliedBy(2)) > 0);
    assertThat(held.ended()).isNotDone();

    RunResult result = held.run(shell("echo \"$NV_GPU $BERTH_PORTS\"").build(), lines::add);
    assertThat(lines).containsExactly("0,1 " + held.ports().get(0) + "," + held.ports().get(1));
    assertThat(result.server()).isEqualTo("gpu02");
    assertThat(result.gpus()).isEqualTo(held.gpus());

    held.close();
    assertThat(gpu02.held()).isEmpty();
    assertThat(held.ended()).isCompleted();
  }

  @Test
  void whatRunsOnAReservationEndsWithIt() throws Exception {
    GpuReservation held = berth.reserve(reservation(1).servers("gpu01").build());
    RunHandle run = held.runAsync(shell("echo up; sleep 60").build(), lines::add);
    assertThat(lines.poll(30, TimeUnit.SECONDS)).isEqualTo("up");

    held.close();

    assertThat(run.result().get(30, TimeUnit.SECONDS).end()).isEqualTo(RunResult.End.CANCELLED);
    assertThat(gpu01.held()).isEmpty();
  }

  @Test
  void aReservationThatSomebodyReleasesIsLost() throws Exception {
    GpuReservation held =
        berth.reserve(reservation(1).servers("gpu01").lease(Duration.ofSeconds(3)).build());

    gpu01.reservations().release(held.id(), RunServer.TIMEOUT);

    assertThatThrownBy(() -> held.ended().get(30, TimeUnit.SECONDS))
        .cause()
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.NOT_FOUND));
  }

  @Test
  void runsAndReservationsOutliveARestartOfTheServer() throws Exception {
    try (GpuReservation held =
        berth.reserve(reservation(1).servers("gpu01").lease(Duration.ofSeconds(20)).build())) {
      RunHandle run =
          held.runAsync(
              shell("echo one; until [ -e go ]; do sleep 0.02; done; echo two").build(),
              lines::add);
      assertThat(lines.poll(30, TimeUnit.SECONDS)).isEqualTo("one");

      gpu01.kill();
      gpu01.start();
      Files.createFile(gpu01.runFolder(run.runId().orElseThrow()).resolve("work/go"));

      assertThat(run.result().get(30, TimeUnit.SECONDS).succeeded()).isTrue();
      assertThat(lines.poll()).isEqualTo("two");
      assertThat(gpu01.held()).containsExactly(held.id());
    }
  }

  @Test
  void packagesAreInstalledBeforeTheProgramStarts() throws Exception {
    Path project = Files.createDirectory(folder.resolve("project"));
    Path wheel = TinyWheel.in(project);
    Files.writeString(project.resolve("train.py"), "import tiny; print(tiny.WORD)\n");
    RunSpec.Builder spec = RunSpec.builder().env("PIP_NO_INDEX", "1");
    List<RunSpec> specs =
        List.of(
            spec.pip(List.of("./" + wheel.getFileName())).files(project).script("train.py").build(),
            spec.command("tiny-word").build(),
            RunSpec.builder()
                .env("PIP_NO_INDEX", "1")
                .env("PYTHONPATH", "/none")
                .pip(List.of(wheel.toString()))
                .script(project.resolve("train.py").toString())
                .build());

    for (RunSpec each : specs) {
      List<String> errors = new CopyOnWriteArrayList<>();
      RunResult result = berth.runAsync(each, lines::add, errors::add).result().get();

      assertThat(errors).isEmpty();
      assertThat(result.succeeded()).isTrue();
      assertThat(lines.poll()).isEqualTo("berth");
    }
  }

  @Test
  void aPackageThatCannotBeInstalledKeepsTheProgramFromStarting() {
    RunResult result =
        berth.run(
            RunSpec.builder()
                .env("PIP_NO_INDEX", "1")
                .pip(List.of("there-is-no-such-package"))
                .command("echo", "started")
                .build(),
            lines::add);

    assertThat(result.exitCode()).isEqualTo(125);
    assertThat(lines)
        .contains("berth: pip could not install there-is-no-such-package")
        .doesNotContain("started");
  }

  private static RunSpec.Builder shell(String script) {
    return RunSpec.builder().command("sh", "-c", script);
  }

  private static ReservationSpec.Builder reservation(int gpus) {
    return ReservationSpec.builder().gpus(gpus).purpose("a test");
  }

  /** How long after its grant a reservation ends, as its server says now. */
  private static Duration expiresAfter(GpuReservation held) {
    Reservation reservation =
        gpu02.reservations().listReservations(RunServer.TIMEOUT).getReservationsList().stream()
            .filter(each -> each.getReservationId().equals(held.id()))
            .findFirst()
            .orElseThrow();
    return Duration.between(
        Messages.instant(reservation.getGrantedAt()), Messages.instant(reservation.getExpiresAt()));
  }

  private static RunServer server(String name, int gpus) throws IOException {
    List<String> options =
        new ArrayList<>(List.of("--name", name, "--runtime", "process", "--allow-root"));
    options.addAll(List.of("--registry", registry.address(), "--sample-interval", "100ms"));
    options.addAll(List.of("--simulate-gpus", "" + gpus));
    return new RunServer(
        Files.createDirectory(folder.resolve(name)), options.toArray(String[]::new));
  }
}
