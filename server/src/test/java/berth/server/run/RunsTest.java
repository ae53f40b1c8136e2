package berth.server.run;

import static berth.server.ShownMetrics.value;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Reservation.Owner;
import berth.server.reservation.Reservations;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.process.ProcessRuntime;
import berth.v1.GpuRequest;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import berth.v1.Source;
import berth.v1.WaitTime;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs as real processes on one simulated GPU, through orderly restarts of the server. */
class RunsTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);
  private static final Owner ADA = new Owner("ada", "laptop");

  @TempDir private Path folder;
  private GpuMonitor gpus;
  private Reservations reservations;
  private Runs runs;
  private Metrics metrics;

  @BeforeEach
  void open() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    describe("  processes\n");
    gpus =
        GpuMonitor.ofSimulation(
            folder.resolve("gpus.txt").toString(),
            "",
            new GpuMonitor.Timing(
                Duration.ofMillis(50), Duration.ofSeconds(60), Duration.ofSeconds(5)));
    gpus.awaitFirstSample(PATIENCE);
    start();
  }

  @AfterEach
  void close() {
    for (Run run : runs.all()) {
      if (!run.over()) {
        runs.cancel(run.id(), ADA, true);
      }
      run.cleaned().orTimeout(20, java.util.concurrent.TimeUnit.SECONDS).join();
    }
    stop();
    gpus.close();
  }

  @Test
  void aRunGoesOnOverAnOrderlyRestartAndSoDoesTheQueue() {
    Path gate = folder.resolve("gate");
    Run first = submit("while [ ! -e " + gate + " ]; do sleep 0.05; done; echo done");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo second on $NV_GPU");
    await().atMost(PATIENCE).until(() -> second.view().ahead().isPresent());

    stop();
    start();

    Run firstAgain = runs.find(first.id());
    Run secondAgain = runs.find(second.id());
    assertThat(firstAgain.view().record().phase()).isEqualTo(Phase.RUNNING);
    assertThat(secondAgain.view().record().phase()).isEqualTo(Phase.QUEUED);
    touch(gate);
    assertThat(end(firstAgain).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(end(secondAgain).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(firstAgain)).isEqualTo("done\n");
    assertThat(output(secondAgain)).isEqualTo("second on 0\n");
  }

  @Test
  void aQueuedRunHasItsFilesAlsoAfterARestartAndShowsOnlyTheirNames() {
    Path gate = folder.resolve("gate");
    Run first = submit("while [ ! -e " + gate + " ]; do sleep 0.05; done");
    awaitPhase(first, Phase.RUNNING);
    RunCodeRequest request =
        request("cat conf/secret; cd /; cat $BERTH_WORK/conf/secret", true).toBuilder()
            .putFiles("conf/secret", ByteString.copyFromUtf8("xyz\n"))
            .build();
    Run second = runs.submit(RunMessages.spec(request), request.toByteArray());
    second.start();
    await().atMost(PATIENCE).until(() -> second.view().ahead().isPresent());

    stop();
    start();

    Run again = runs.find(second.id());
    assertThat(new RunMessages("gpu01").run(again).getRequest().getFilesMap())
        .isEqualTo(Map.of("conf/secret", ByteString.EMPTY));
    touch(gate);
    assertThat(end(again).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(again)).isEqualTo("xyz\nxyz\n");
  }

  @Test
  void aRunThatIsOverKeepsNoContentInMemory() {
    RunCodeRequest request =
        request("", true).toBuilder()
            .clearCommand()
            .setSource(
                Source.newBuilder()
                    .setFileName("run.sh")
                    .setContent(ByteString.copyFromUtf8("cat file\n"))
                    .addInterpreter("sh"))
            .putFiles("file", ByteString.copyFromUtf8("xyz\n"))
            .build();
    Run run = runs.submit(RunMessages.spec(request), request.toByteArray());
    run.start();
    end(run);
    assertThat(output(run)).isEqualTo("xyz\n");
    assertNoContent(run.spec());

    stop();
    start();

    assertNoContent(runs.find(run.id()).spec());
  }

  private static void assertNoContent(RunSpec spec) {
    assertThat(((RunSpec.Code.Source) spec.code()).content()).isEmpty();
    assertThat(spec.files()).containsOnlyKeys("file");
    assertThat(spec.files().get("file")).isEmpty();
  }

  @Test
  void aRunThatIsCancelledInTheQueueHoldsNothing() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo never");
    await().atMost(PATIENCE).until(() -> second.view().ahead().isPresent());

    runs.cancel(second.id(), ADA, false);

    assertThat(end(second).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(end(second).message()).contains("was cancelled by ada@laptop");
    assertThat(reservations.overview().waiting()).isEmpty();
    assertThat(reservations.overview().reservations()).hasSize(1);
    assertThatThrownBy(() -> runs.cancel(second.id(), ADA, false))
        .hasMessage(second.id() + " has ended already");
  }

  @Test
  void aGpuIsHeldBackWhileAProcessIsLeftOnIt() throws IOException {
    Path gate = folder.resolve("gate");
    Run run = submit("while [ ! -e " + gate + " ]; do sleep 0.05; done");
    awaitPhase(run, Phase.RUNNING);
    describe("  process 4242 100\n");
    touch(gate);

    await().atMost(PATIENCE).until(() -> run.view().settled());

    assertThat(run.view().heldBack()).isEqualTo("process 4242 is still on GPU 0");
    assertThat(reservations.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.heldBack()).isEqualTo("process 4242 is still on GPU 0"));
    describe("  processes\n");
    await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    assertThat(reservations.overview().reservations()).isEmpty();
  }

  @Test
  void aRunThatIsNotDetachedEndsWithItsCaller() {
    Run run = runs.submit(spec("sleep 100", false), request("sleep 100", false).toByteArray());
    Runnable gone = run.hold();
    run.start();
    awaitPhase(run, Phase.RUNNING);
    // Back in time.
    gone.run();
    gone = run.hold();
    gone.run();

    assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(end(run).message()).isEqualTo("its caller has gone");
  }

  @Test
  void aRunThatDoesNotUseItsGpuIsEndedAlsoAfterARestart() throws IOException {
    describe("  utilization 80 0\n  processes\n");
    RunCodeRequest request =
        // The shell may say on its standard error that what it waited for was terminated.
        request(
                "exec 2>/dev/null; trap 'echo saved; exit 3' TERM; while :; do sleep 0.02; done",
                true)
            .toBuilder()
            .setLimits(
                Limits.newBuilder()
                    .setIdle(
                        IdleLimit.newBuilder()
                            .setBelowPercent(5)
                            .setTime(com.google.protobuf.Duration.newBuilder().setSeconds(1))))
            .build();
    Run run = runs.submit(RunMessages.spec(request), request.toByteArray());
    run.start();
    awaitPhase(run, Phase.RUNNING);

    stop();
    start();
    describe("  utilization 4 0\n  processes\n");

    Run again = runs.find(run.id());
    assertThat(end(again).reason()).isEqualTo(ExitReason.IDLE);
    assertThat(end(again).message()).isEqualTo("its GPUs were used less than 5 % for 1 s");
    assertThat(end(again).exitCode()).isEqualTo(3);
    assertThat(output(again)).isEqualTo("saved\n");
    assertThat(reservations.overview().reservations()).isEmpty();
  }

  @Test
  void aRunEndsAlsoWhileThatCannotBeWrittenDownAndIsNotStartedAgainLater() throws IOException {
    Path starts = folder.resolve("starts");
    Run run = submit("echo started >>" + starts + "; exec sleep 1000");
    await().atMost(PATIENCE).until(() -> Files.exists(starts));
    awaitPhase(run, Phase.RUNNING);
    // As good as a full disk.
    Path obstacle = Files.createDirectory(run.folder().path().resolve("state.new"));

    runs.cancel(run.id(), ADA, false);
    assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(end(submit("echo next")).reason()).isEqualTo(ExitReason.FINISHED);

    stop();
    start();
    Run again = runs.find(run.id());
    assertThat(end(again).exitCode()).isEqualTo(143);
    Files.delete(obstacle);
    await().atMost(PATIENCE).until(() -> !Files.exists(run.folder().io()));

    stop();
    start();
    assertThat(runs.find(run.id()).view().record().phase()).isEqualTo(Phase.CLEANED);
    assertThat(starts).hasContent("started");
  }

  @Test
  void aRunThatIsRemovedIsForgottenWithAllThatWasKept() {
    Run run = submit("echo much >file");
    end(run);
    assertThat(run.folder().work().resolve("file")).exists();

    runs.remove(run.id());

    assertThat(run.folder().path()).doesNotExist();
    assertRefused(
        () -> runs.remove(run.id()),
        Reason.NOT_FOUND,
        "there is no run '" + run.id() + "' on gpu01: it never was, or is forgotten");
    stop();
    start();
    assertThat(runs.all()).isEmpty();
  }

  @Test
  void onlyWhatHasEndedAndLeftItsGpusCanBeRemoved() throws IOException {
    Path gate = folder.resolve("gate");
    Run run = submit("while [ ! -e " + gate + " ]; do sleep 0.05; done");
    awaitPhase(run, Phase.RUNNING);
    assertRefused(
        () -> runs.remove(run.id()),
        Reason.CONFLICT,
        run.id() + " has not ended; it can be removed when it has");
    describe("  process 4242 100\n");
    touch(gate);
    await().atMost(PATIENCE).until(() -> run.view().settled());

    assertRefused(
        () -> runs.remove(run.id()),
        Reason.CONFLICT,
        run.id() + " has ended, but not everything of it is cleaned up yet");

    assertThat(run.folder().state()).exists();
    describe("  processes\n");
    end(run);
    runs.remove(run.id());
  }

  private static void assertRefused(ThrowingCallable call, Reason reason, String message) {
    assertThatThrownBy(call)
        .hasMessage(message)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(reason));
  }

  @Test
  void whoWantsNoOutputHearsTheRestAndReadsNothing() throws IOException {
    Run run = submit("echo much; exit 3");
    end(run);
    assertThat(heard(run, OptionalLong.of(0)))
        .containsExactly(
            EventCase.ACCEPTED,
            EventCase.RESERVED,
            EventCase.STARTED,
            EventCase.OUTPUT,
            EventCase.EXITED);

    WorkFiles.delete(run.folder().spool());

    assertThat(heard(run, OptionalLong.empty()))
        .containsExactly(
            EventCase.ACCEPTED, EventCase.RESERVED, EventCase.STARTED, EventCase.EXITED);
  }

  @Test
  void whoWantsNoOutputIsToldOfTheEndWhenItComes() {
    Path gate = folder.resolve("gate");
    Run run = submit("echo much; while [ ! -e " + gate + " ]; do sleep 0.05; done");
    await().atMost(PATIENCE).until(() -> run.liveOutput().map(Spool::total).orElse(0L) > 0);
    awaitPhase(run, Phase.RUNNING);
    RunReader reader = reader(run, OptionalLong.empty());

    assertThat(rest(reader))
        .containsExactly(EventCase.ACCEPTED, EventCase.RESERVED, EventCase.STARTED);
    assertThat(reader.ended()).isFalse();
    touch(gate);
    end(run);
    assertThat(rest(reader)).containsExactly(EventCase.EXITED);
    assertThat(reader.ended()).isTrue();
  }

  private List<EventCase> heard(Run run, OptionalLong offset) {
    try (RunReader reader = reader(run, offset)) {
      return rest(reader);
    }
  }

  private RunReader reader(Run run, OptionalLong offset) {
    return new RunReader(runs, run, new RunMessages("gpu01"), offset, false, true);
  }

  private static List<EventCase> rest(RunReader reader) {
    return Stream.generate(reader::next)
        .takeWhile(Objects::nonNull)
        .map(RunEvent::getEventCase)
        .toList();
  }

  @Test
  void aRetryOfARequestIsTheSameRun() {
    RunCodeRequest request = request("true", true).toBuilder().setRequestId("mine").build();
    Run first = runs.submit(RunMessages.spec(request), request.toByteArray());
    first.start();

    assertThat(runs.submit(RunMessages.spec(request), request.toByteArray())).isSameAs(first);
    // By it a caller who heard nothing finds out whether there is such a run.
    assertThat(new RunMessages("gpu01").run(first).getRequest().getRequestId())
        .isEqualTo(request.getRequestId())
        .isNotEmpty();
    end(first);
    assertThat(runs.submit(RunMessages.spec(request), request.toByteArray())).isSameAs(first);
  }

  @Test
  void nothingIsLeftOfARequestThatIsRefused() throws IOException {
    RunCodeRequest request =
        request("true", true).toBuilder().setGpus(GpuRequest.newBuilder().setCount(5)).build();

    assertThatThrownBy(() -> runs.submit(RunMessages.spec(request), request.toByteArray()))
        .hasMessage("5 GPUs asked, this server has 1");
    try (var left = Files.list(folder.resolve("state/runs"))) {
      assertThat(left).isEmpty();
    }
  }

  @Test
  void showsHowManyRunAndWaitAndCountsHowTheyEnd() {
    Path gate = folder.resolve("gate");
    Run first = submit("echo hello; while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 3");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("true");
    await().atMost(PATIENCE).until(() -> second.view().ahead().isPresent());
    assertThat(value(metrics, "berth_runs{phase=\"running\"}")).isEqualTo(1);
    assertThat(value(metrics, "berth_runs{phase=\"queued\"}")).isEqualTo(1);
    assertThat(value(metrics, "berth_runs_held_back")).isEqualTo(0);

    touch(gate);
    end(first);
    end(second);

    assertThat(value(metrics, "berth_runs{phase=\"running\"}")).isEqualTo(0);
    assertThat(value(metrics, "berth_runs_accepted_total")).isEqualTo(2);
    assertThat(value(metrics, "berth_runs_ended_total{reason=\"failed\"}")).isEqualTo(1);
    assertThat(value(metrics, "berth_runs_ended_total{reason=\"finished\"}")).isEqualTo(1);
    assertThat(value(metrics, "berth_runs_ended_total{reason=\"start_failed\"}")).isEqualTo(0);
    assertThat(value(metrics, "berth_run_output_bytes_total")).isEqualTo("hello\n".length());
    assertThat(value(metrics, "berth_run_start_seconds_count")).isEqualTo(2);
  }

  @Test
  void theTimeInLineIsNoPartOfTheStart() {
    Path gate = folder.resolve("gate");
    Run first = submit("while [ ! -e " + gate + " ]; do sleep 0.05; done");
    awaitPhase(first, Phase.RUNNING);
    double before = value(metrics, "berth_run_start_seconds_sum");
    Run second = submit("true");
    await()
        .atMost(PATIENCE)
        .until(() -> value(metrics, "berth_reservation_oldest_wait_seconds") > 3);
    touch(gate);
    end(second);
    double start = value(metrics, "berth_run_start_seconds_sum") - before;
    double wait = value(metrics, "berth_reservation_wait_seconds_sum");
    assertThat(wait).isGreaterThan(3);
    assertThat(start).isBetween(0.0, wait);
  }

  @Test
  void whatAnEarlierServerStartedOrPrintedIsNotCountedAgain() {
    Path gate = folder.resolve("gate");
    Run run = submit("echo before; while [ ! -e " + gate + " ]; do sleep 0.05; done; echo after");
    await().atMost(PATIENCE).until(() -> value(metrics, "berth_run_output_bytes_total") == 7);
    stop();
    start();
    assertThat(value(metrics, "berth_run_output_bytes_total")).isEqualTo(0);
    touch(gate);
    end(runs.find(run.id()));
    assertThat(value(metrics, "berth_run_output_bytes_total")).isEqualTo("after\n".length());
    assertThat(value(metrics, "berth_run_start_seconds_count")).isEqualTo(0);
    assertThat(value(metrics, "berth_runs_ended_total{reason=\"finished\"}")).isEqualTo(1);
  }

  @Test
  void showsWhetherItCanRunAndWhatRoomIsLeft() {
    assertThat(value(metrics, "berth_runtime_up")).isEqualTo(1);
    assertThat(value(metrics, "berth_state_disk_free_bytes"))
        .isBetween(1.0, value(metrics, "berth_state_disk_size_bytes"));
  }

  private void start() {
    metrics = new Metrics();
    Path state = folder.resolve("state");
    reservations =
        Reservations.open(
            new Reservations.Settings(
                "gpu01", folder.resolve("locks"), state, "20000-20999", false),
            gpus,
            metrics);
    runs =
        Runs.open(
            new Runs.Settings(
                "gpu01",
                state,
                Services.none(),
                List.of(),
                Duration.ofMillis(300),
                1 << 20,
                Duration.ofDays(1),
                1 << 20,
                false),
            reservations,
            gpus,
            new ProcessRuntime(id -> Runs.folder(state, id)),
            RunMessages::spec,
            metrics);
  }

  private void stop() {
    runs.close();
    reservations.close();
  }

  private Run submit(String script) {
    Run run = runs.submit(spec(script, true), request(script, true).toByteArray());
    run.start();
    return run;
  }

  private static RunSpec spec(String script, boolean detached) {
    return RunMessages.spec(request(script, detached));
  }

  private static RunCodeRequest request(String script, boolean detached) {
    return RunCodeRequest.newBuilder()
        .addAllCommand(List.of("sh", "-c", script))
        .setGpus(GpuRequest.newBuilder().setCount(1))
        .setWait(WaitTime.newBuilder().setForever(true))
        .setDetached(detached)
        .build();
  }

  private static void awaitPhase(Run run, Phase phase) {
    await().atMost(PATIENCE).until(() -> run.view().record().phase() == phase);
  }

  private static Ended end(Run run) {
    await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    return run.view().record().ended().orElseThrow();
  }

  private String output(Run run) {
    try (Spool spool = runs.pastOutput(run)) {
      return spool
          .read(0, 1000)
          .map(chunk -> java.nio.charset.StandardCharsets.UTF_8.decode(chunk.data()).toString())
          .orElse("");
    }
  }

  private void touch(Path file) {
    try {
      Files.createFile(file);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private void describe(String processes) throws IOException {
    Path next =
        Files.writeString(
            folder.resolve("next.txt"),
            "gpu GPU-0\n  name Simulated A100\n  memory 81920 0\n" + processes);
    Files.move(next, folder.resolve("gpus.txt"), StandardCopyOption.ATOMIC_MOVE);
  }
}
