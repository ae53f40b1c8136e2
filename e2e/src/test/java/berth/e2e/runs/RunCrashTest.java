package berth.e2e.runs;

import static berth.e2e.fixture.Asked.command;
import static berth.e2e.fixture.Asked.gpus;
import static berth.e2e.fixture.Asked.reservation;
import static berth.e2e.fixture.Asked.seconds;
import static berth.e2e.fixture.Asked.shell;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.Registry;
import berth.e2e.fixture.RunServer;
import berth.v1.ExitReason;
import berth.v1.Reservation;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent.EventCase;
import berth.v1.RunExited;
import berth.v1.WaitTime;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Runs whose server or engine is killed, at every moment of their lives. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class RunCrashTest {
  private static final int ATTEMPTS = 10;
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Counting COUNTING = new Counting(15);

  @TempDir private static Path folder;
  @TempDir private static Path registryFolder;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  static void start(Engine shared) {
    engine = shared;
    server = server(folder);
  }

  private static RunServer server(Path folder, String... more) {
    String[] options = {
      "--docker", engine.host(), "--simulate-gpus", "2", "--sample-interval", "200ms"
    };
    String[] all = java.util.Arrays.copyOf(options, options.length + more.length);
    System.arraycopy(more, 0, all, options.length, more.length);
    return new RunServer(folder, all);
  }

  @AfterEach
  void leavesNothing() {
    if (!server.daemon().alive()) {
      server.start();
    }
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @Test
  void killedWhileARunIsQueued() throws Exception {
    Reservation reserved = server.reserve(reservation(600, 0, 1));
    Heard heard =
        server.run(
            counting().setGpus(gpus(1)).setWait(WaitTime.newBuilder().setAtMost(seconds(60))));
    heard.await(EventCase.QUEUED);

    server.kill();

    assertThat(server.phase(heard.runId())).isEqualTo("QUEUED");
    server.start();
    server.reservations().release(reserved.getReservationId(), RunServer.TIMEOUT);
    assertAllHeard(heard);
  }

  @Test
  void killedWhileAnImageIsFetched() throws Exception {
    try (Registry registry = new Registry(engine, registryFolder)) {
      Heard heard = server.run(counting().setImage(Registry.image("busy-crash")).setGpus(gpus(1)));
      registry.awaitSaid("half busy-crash");

      server.kill();

      assertThat(server.phase(heard.runId())).isEqualTo("PREPARING");
      assertThat(engine.docker("image", "ls", "-q", Registry.image("busy-crash"))).isEmpty();
      try (LockWaiter other = new LockWaiter(server.lockOfGpu(1))) {
        server.start();
        registry.open();
        assertAllHeard(heard);
        assertThat(other.gotIt()).isAfter(LockWaiter.instant(heard.exited().getEndedAt()));
      }
    }
  }

  @Test
  void killedWhenTheContainerIsMade() throws Exception {
    Path containers = engine.folder().resolve("data/containers");
    Heard heard =
        killWhen(
            id -> !Leftovers.filesIn(containers).isEmpty(),
            id ->
                server.phase(id).equals("PREPARING")
                    && engine.containersOf(server.state()).size() == 1
                    && status(id).equals("created"));

    assertGoesOn(heard);
  }

  @Test
  void killedWhileTheContainerStarts() throws Exception {
    Heard heard =
        killWhen(
            id -> server.phase(id).equals("LAUNCHING"), id -> server.phase(id).equals("LAUNCHING"));

    assertGoesOn(heard);
  }

  @Test
  void killedWhenTheContainerHasStartedBeforeThatIsNoted() throws Exception {
    Heard heard =
        killWhen(
            id -> Files.exists(server.runFolder(id).resolve("mark/once")),
            id -> server.phase(id).equals("LAUNCHING") && status(id).equals("running"));

    assertGoesOn(heard);
  }

  @Test
  void killedWhileTheProgramPrints() throws Exception {
    Heard heard =
        killWhen(
            id -> size(server.runFolder(id).resolve("spool/stdout")) > 50_000,
            id -> server.phase(id).equals("RUNNING") && status(id).equals("running"));

    assertGoesOn(heard);
  }

  @Test
  void killedAgainAndAgainWhileTheProgramPrints() throws Exception {
    Counting longer = new Counting(150);
    Heard heard = server.run(shell(longer.script()).setGpus(gpus(1)));
    heard.awaitOutput(10_000);
    try (LockWaiter other = new LockWaiter(server.lockOfGpu(1))) {
      for (int i = 1; i <= 2; i++) {
        server.kill();
        assertThat(status(heard.runId())).isEqualTo("running");
        server.start();
        heard.awaitOutput(i * longer.bytes() / 10);
      }
      assertThat(heard.exited().getExitCode()).isZero();
      longer.assertHeard(heard);
      assertThat(other.gotIt()).isAfter(LockWaiter.instant(heard.exited().getEndedAt()));
    }
  }

  @Test
  void killedWhenTheProgramHasEndedAndItsContainerIsStillThere() throws Exception {
    Heard heard =
        killWhen(id -> server.phase(id).equals("ENDED"), id -> server.phase(id).equals("ENDED"));

    server.start();
    assertAllHeard(heard);
    await().atMost(PATIENCE).until(() -> server.phase(heard.runId()).equals("CLEANED"));
  }

  @Test
  void theProgramMayEndWhileTheServerIsDead() throws Exception {
    Heard heard =
        killWhen(
            id -> server.phase(id).equals("RUNNING"), id -> server.phase(id).equals("RUNNING"));
    await().atMost(PATIENCE).until(() -> status(heard.runId()).equals("exited"));

    server.start();

    assertAllHeard(heard);
  }

  @Test
  void anEngineThatIsKilledUnderARunIsNamedAndAllThatWasPrintedIsThere() throws Exception {
    Heard heard = server.run(shell(Counting.endless()).setGpus(gpus(0)));
    heard.awaitOutput(20_000);
    engine.kill();
    // The program goes on until the engine is back.
    long before = size(server.runFolder(heard.runId()).resolve("spool/stdout"));
    heard.awaitOutput(4 * before);

    engine.start();

    assertLostToTheEngine(heard);
  }

  @Test
  void anEngineThatIsRestartedUnderARunIsNamedAndAllThatWasPrintedIsThere() throws Exception {
    Heard heard = server.run(shell(Counting.endless()).setGpus(gpus(0)));
    heard.awaitOutput(20_000);

    engine.restart();

    assertLostToTheEngine(heard);
  }

  private static void assertLostToTheEngine(Heard heard) throws IOException {
    RunExited exited = heard.exited();
    assertThat(exited.getReason())
        .as(exited.toString())
        .isEqualTo(ExitReason.EXIT_REASON_SERVER_LOST);
    assertThat(exited.getMessage())
        .matches("the container was stopped by the Docker engine.*|the Docker engine went down.*");
    Path written = server.runFolder(heard.runId()).resolve("work/written");
    Counting.assertHeardAtLeast(heard, Integer.parseInt(Files.readString(written).strip()));
    Heard next = server.run(shell("echo next").setGpus(gpus(0, 1)).setWait(soon()));
    assertThat(next.exited().getExitCode()).isZero();
    assertThat(next.outText()).isEqualTo("next\n");
  }

  private static WaitTime soon() {
    return WaitTime.newBuilder().setAtMost(seconds(10)).build();
  }

  @Test
  void containersOfADeadServerAreReapedAndNobodyElses(@TempDir Path dead, @TempDir Path reaping)
      throws Exception {
    String stranger =
        engine.docker("run", "-d", "--label", "berth.server=x", Engine.IMAGE, "sleep", "1000");
    Heard living = server.run(shell("echo up; " + Asked.AWAIT_GO).setGpus(gpus(1)));
    living.awaitOutput(3);
    try (RunServer victim = server(dead)) {
      String runId =
          victim.run(shell("echo up; sleep 1000").setDetached(true).setGpus(gpus(0))).runId();
      victim.attach(runId, 0).awaitOutput(3);
      victim.kill();
      assertThat(engine.containersOf(victim.state())).hasSize(1);

      try (RunServer reaper = server(reaping, "--reap-after", "0s")) {
        await().atMost(PATIENCE).until(() -> engine.containersOf(victim.state()).isEmpty());
        assertThat(reaper.daemon().log()).contains("removing orphaned container of " + runId);
      }

      assertThat(engine.inspect(stranger, "{{.State.Status}}")).isEqualTo("running");
      engine.docker("rm", "-f", stranger);
      assertThat(status(living.runId())).isEqualTo("running");
      Files.createFile(server.runFolder(living.runId()).resolve("work/go"));
      assertThat(living.exited().getExitCode()).isZero();
      victim.start();
      RunExited exited = victim.attach(runId, 0).exited();
      assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_SERVER_LOST);
      assertThat(exited.getMessage()).isEqualTo("its container was removed outside of Berth");
      victim.assertNothingLeft();
    }
  }

  private static RunCodeRequest.Builder counting() {
    return command("sh", "-c", COUNTING.script()).setImage(Engine.IMAGE);
  }

  /**
   * Starts runs on GPU 1 until the server could be killed at a moment in the life of one.
   *
   * @param reached asked without a pause while the server lives
   * @param hit asked when it is dead: whether it was killed at the right moment
   */
  private static Heard killWhen(Predicate<String> reached, Predicate<String> hit)
      throws InterruptedException {
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
      Heard heard = server.run(counting().setGpus(gpus(1)).setWait(soon()));
      String id = heard.runId();
      long deadline = System.nanoTime() + PATIENCE.toNanos();
      while (!reached.test(id)) {
        if (System.nanoTime() - deadline > 0) {
          throw new AssertionError(id + " never came to that moment: " + server.daemon().log());
        }
      }
      server.kill();
      if (hit.test(id)) {
        return heard;
      }
      server.start();
      assertAllHeard(heard);
    }
    throw new AssertionError("the server was never killed at the right moment");
  }

  /** Starts the server again, before whom a stranger wants the GPU that the run has. */
  private static void assertGoesOn(Heard heard) throws Exception {
    try (LockWaiter other = new LockWaiter(server.lockOfGpu(1))) {
      server.start();
      assertAllHeard(heard);
      assertThat(other.gotIt()).isAfter(LockWaiter.instant(heard.exited().getEndedAt()));
    }
  }

  private static void assertAllHeard(Heard heard) {
    RunExited exited = heard.exited();
    assertThat(exited.getMessage()).isEmpty();
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(exited.getExitCode()).isZero();
    assertThat(exited.getOutputBytes()).isEqualTo(COUNTING.bytes());
    COUNTING.assertHeard(heard);
    assertThat(heard.all(EventCase.STARTED)).hasSize(1);
    // Who comes later hears the same.
    COUNTING.assertHeard(awaitEnd(server.attach(heard.runId(), 0)));
  }

  private static Heard awaitEnd(Heard heard) {
    heard.exited();
    return heard;
  }

  private static String status(String runId) {
    List<String> found =
        engine
            .docker("ps", "-a", "--format", "{{.State}}", "--filter", "name=berth-" + runId)
            .lines()
            .toList();
    return found.isEmpty() ? "none" : found.get(0);
  }

  private static long size(Path file) {
    try {
      return Files.size(file);
    } catch (IOException e) {
      return 0;
    }
  }
}
