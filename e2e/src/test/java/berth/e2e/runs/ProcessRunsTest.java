package berth.e2e.runs;

import static berth.e2e.fixture.Asked.command;
import static berth.e2e.fixture.Asked.gpus;
import static berth.e2e.fixture.Asked.grace;
import static berth.e2e.fixture.Asked.reservation;
import static berth.e2e.fixture.Asked.seconds;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.FollowedRun;
import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.RunServer;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.ExitReason;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent.EventCase;
import berth.v1.RunExited;
import berth.v1.RunStarted;
import berth.v1.WarningSignal;
import com.google.protobuf.ByteString;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs as plain processes. */
class ProcessRunsTest {
  @TempDir private static Path folder;
  private static GpuFile gpuFile;
  private static RunServer server;
  private String runId;

  @BeforeAll
  static void start() {
    gpuFile = new GpuFile(folder, 4);
    server =
        new RunServer(
            folder,
            "--runtime",
            "process",
            "--allow-root",
            "--simulate-gpus",
            gpuFile.path().toString(),
            "--sample-interval",
            "100ms");
  }

  @AfterEach
  void leavesNothing() {
    server.assertNothingLeft();
    assertThat(groups()).isEmpty();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  /** The control groups of runs of this server that still exist. */
  private static List<String> groups() {
    return server.runs().listRuns(RunServer.TIMEOUT).getRunsList().stream()
        .map(run -> run.getRunId())
        .filter(
            id ->
                Files.exists(Path.of("/sys/fs/cgroup/memory/berth", id))
                    || Files.exists(Path.of("/sys/fs/cgroup/berth", id)))
        .toList();
  }

  @Test
  void aProgramDoesNotShareTheDaemonsAdvantageWhenMemoryIsShort() throws Exception {
    Path daemons = Path.of("/proc/" + server.daemon().pid() + "/oom_score_adj");
    // A disadvantage in fact, because not everybody may give an advantage.
    Files.writeString(daemons, "300");
    try {
      Heard heard = server.run(shell("cat /proc/self/oom_score_adj"));
      assertThat(heard.exited().getExitCode()).isZero();
      assertThat(heard.outText()).isEqualTo("0\n");
    } finally {
      Files.writeString(daemons, "0");
    }
  }

  @Test
  void passesBothStreamsAndTheExitCodeAndSaysThatNothingIsolatesIt() {
    Heard heard = server.run(shell("pwd; echo to err >&2; exit 7"));

    assertThat(heard.exited().getExitCode()).isEqualTo(7);
    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(heard.outText()).isEqualTo(server.runFolder(heard.runId()) + "/work\n");
    assertThat(heard.errText()).isEqualTo("to err\n");
    RunStarted started = heard.await(EventCase.STARTED).getStarted();
    assertThat(started.getIsolated()).isFalse();
    assertThat(started.getContainerId()).isEmpty();
    assertThat(server.daemon().log()).contains("without isolation");
  }

  @Test
  void whoAttachesWithoutOutputHearsWhatBecomesOfTheRun() {
    Heard caller = server.run(shell("echo much; exit 7"));
    caller.exited();
    AttachRunRequest request =
        AttachRunRequest.newBuilder()
            .setRunId(caller.runId())
            .setFromOffset(1000)
            .setNoOutput(true)
            .build();

    Heard heard = Heard.from(0, to -> new FollowedRun(server.runs(), to).attach(request));

    assertThat(heard.exited().getExitCode()).isEqualTo(7);
    assertThat(heard.kinds())
        .containsExactly(EventCase.ACCEPTED, EventCase.STARTED, EventCase.EXITED);
    assertThat(heard.outText()).isEmpty();
  }

  @Test
  void smallFilesComeWithTheCode() {
    Heard heard =
        server.run(
            shell("pwd; cat conf/tf.json; cd /; echo $BERTH_WORK; cat $BERTH_WORK/conf/tf.json")
                .putFiles("conf/tf.json", ByteString.copyFromUtf8("{}\n")));

    assertThat(heard.exited().getExitCode()).isZero();
    String work = server.runFolder(heard.runId()) + "/work\n";
    assertThat(heard.outText()).isEqualTo(work + "{}\n" + work + "{}\n");
    assertThat(server.get(heard.runId()).getRequest().getFilesMap())
        .isEqualTo(Map.of("conf/tf.json", ByteString.EMPTY));
  }

  @Test
  void programsSeeTheGpusByTheirNumbersOnTheServer() {
    String script = "env | grep -E '^(NV|CUDA)' | sort";

    Heard two = server.run(shell(script).setGpus(gpus(1, 3)));
    Heard none = server.run(shell(script));

    assertThat(two.exited().getExitCode()).isZero();
    assertThat(two.outText())
        .isEqualTo("CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=1,3\nNV_GPU=1,3\n");
    assertThat(none.exited().getExitCode()).isZero();
    assertThat(none.outText())
        .isEqualTo(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=-1\nNVIDIA_VISIBLE_DEVICES=void\n");
  }

  @Test
  void whenItsTimeIsOverARunIsWarnedAskedAndKilled() {
    Heard heard =
        server.run(
            shell(
                    "trap 'echo warned' USR1; trap 'echo asked' TERM; echo up;"
                        + " while :; do sleep 0.02; done")
                .setLimits(
                    grace(0.4)
                        .setTime(seconds(1.2))
                        .setWarning(
                            WarningSignal.newBuilder().setSignal("USR1").setBefore(seconds(0.6)))));

    RunExited exited = heard.exited();
    assertThat(heard.outText()).isEqualTo("up\nwarned\nasked\n");
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_TIME_LIMIT);
    assertThat(exited.getExitCode()).isEqualTo(137);
  }

  @Test
  void aRunGoesOnWhileItUsesItsGpuThenEndsAndCanBeRemoved() throws Exception {
    gpuFile.useOf(1, 80);
    String address = server.daemon().address();
    Process run =
        new ProcessBuilder(
                List.of(
                    Installed.command("berth"),
                    "run",
                    "--server=" + address,
                    "--gpu=1",
                    "--idle=5%@1s",
                    "--quiet",
                    "--",
                    "sh",
                    "-c",
                    "while :; do echo $BERTH_RUN_ID; sleep 0.1; done"))
            .start();
    try {
      String id = run.inputReader().readLine();
      // Twice as long as it may be idle.
      for (int line = 0; line < 20; line++) {
        assertThat(run.inputReader().readLine()).isEqualTo(id);
      }
      assertThat(Installed.berth("rm", "--server", address, id))
          .isEqualTo(new Result(125, "", "berth: " + id + " has not ended; cancel it first\n"));

      gpuFile.useOf(1, 4);

      assertThat(run.inputReader().lines()).allMatch(id::equals);
      assertThat(run.errorReader().lines())
          .containsExactly("berth: " + id + ": GPUs idle: used less than 5 % for 1 s");
      assertThat(run.waitFor()).isEqualTo(124);
      RunExited exited = server.get(id).getExited();
      assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_IDLE);
      assertThat(exited.getExitCode()).isEqualTo(143);
      assertThat(server.held()).isEmpty();
      assertThat(Installed.berth("rm", "--server", address, id)).isEqualTo(new Result(0, "", ""));
      assertThat(server.runFolder(id)).doesNotExist();
      assertThat(Installed.berth("rm", "--server", address, id).err())
          .isEqualTo(
              "berth: there is no run '"
                  + id
                  + "', nor a run of yours with this name; 'berth runs --all' lists them\n");
    } finally {
      run.destroyForcibly();
      gpuFile.noProcesses();
    }
  }

  @Test
  void aRunOnAReservationOfPortsAloneIsNeverIdle() {
    String ports =
        server
            .reserve(reservation(60).toBuilder().clearGpus().setPortCount(1).build())
            .getReservationId();

    Heard heard =
        server.run(
            shell("sleep 1.5")
                .setReservationId(ports)
                .setLimits(
                    Limits.newBuilder()
                        .setIdle(IdleLimit.newBuilder().setBelowPercent(100).setTime(seconds(1)))));

    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    server.reservations().release(ports, RunServer.TIMEOUT);
  }

  @Test
  void aCancelledRunMaySaveWhatItHas() {
    Heard heard = server.run(shell("trap 'echo saved; exit 3' TERM; echo up; sleep 100 & wait"));
    heard.awaitOutput(3);

    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(heard.runId()).setBy(Asked.BOB).build(),
            RunServer.TIMEOUT);

    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    assertThat(heard.exited().getExitCode()).isEqualTo(3);
    assertThat(heard.exited().getMessage()).isEqualTo("cancelled by bob@desk");
    assertThat(heard.outText()).isEqualTo("up\nsaved\n");
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whoIsCancelledInTheMomentOfItsStartEnds(boolean force) {
    for (int i = 0; i < 20; i++) {
      AtomicReference<RunExited> exited = new AtomicReference<>();
      server
          .runs()
          .runCode(
              shell("exec sleep 1000").setLimits(grace(100)).build(),
              event -> {
                if (event.hasAccepted()) {
                  runId = event.getAccepted().getRunId();
                } else if (event.hasStarted()) {
                  server
                      .runs()
                      .cancelRun(
                          CancelRunRequest.newBuilder().setRunId(runId).setForce(force).build(),
                          RunServer.TIMEOUT);
                } else if (event.hasExited()) {
                  exited.set(event.getExited());
                }
              });

      assertThat(exited.get().getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
      assertThat(exited.get().getExitCode()).isIn(137, 143);
    }
  }

  @Test
  void whoUsesMoreMemoryThanAllowedIsToldSo() {
    Heard heard =
        server.run(
            command("/usr/bin/python3", "-c", "x = b'x' * (200 << 20)")
                .setLimits(Limits.newBuilder().setMemoryBytes(32 << 20)));

    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_OUT_OF_MEMORY);
    assertThat(heard.exited().getExitCode()).isEqualTo(137);
    assertThat(heard.await(EventCase.STARTED).getStarted().getNotEnforcedList()).isEmpty();
  }

  @Test
  void whatAProgramLeavesInTheBackgroundEndsWithIt() throws Exception {
    Heard heard =
        server.run(shell("(setsid sleep 1000 >/dev/null 2>&1 & echo $! >pid); cat pid; exit 4"));

    assertThat(heard.exited().getExitCode()).isEqualTo(4);
    Path left = Path.of("/proc", heard.outText().strip(), "cmdline");
    await().until(() -> !Files.exists(left) || !Files.readString(left).contains("1000"));
  }

  @Test
  void aRunGoesOnWithoutItsServerAndEveryByteIsThere() throws Exception {
    Counting counting = new Counting(60);
    Heard heard = server.run(shell(counting.script()).setGpus(gpus(2)));
    heard.awaitOutput(20_000);

    server.kill();

    assertThat(server.phase(heard.runId())).isEqualTo("RUNNING");
    try (LockWaiter other = new LockWaiter(server.lockOfGpu(2))) {
      server.start();
      assertThat(heard.exited().getMessage()).isEmpty();
      assertThat(heard.exited().getExitCode()).isZero();
      counting.assertHeard(heard);
      assertThat(other.gotIt()).isAfter(LockWaiter.instant(heard.exited().getEndedAt()));
    }
  }

  @Test
  void aProgramMayEndWhileTheServerIsDead() throws Exception {
    Counting counting = new Counting(5);
    Heard heard = server.run(shell(counting.script() + "; exit 6").setGpus(gpus(2)));
    heard.await(EventCase.STARTED);

    server.kill();

    await().until(() -> Files.exists(server.runFolder(heard.runId()).resolve("io/exit")));
    server.start();
    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(heard.exited().getExitCode()).isEqualTo(6);
    counting.assertHeard(heard);
  }

  @Test
  void whatOnlyContainersHaveIsRefused() {
    assertThat(
            server.run(shell("true").setNetwork(berth.v1.Network.NETWORK_NONE)).failed().reason())
        .isEqualTo(Reason.INVALID);
    assertThat(server.run(RunCodeRequest.newBuilder()).failed())
        .hasMessage(
            "no script or command given; this server runs plain processes and has no images");
  }

  private static RunCodeRequest.Builder shell(String script) {
    return command("sh", "-c", script);
  }
}
