package berth.server.run;

import static berth.metrics.ShownMetrics.value;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.state.RecordFile;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.reservation.Reservation.Owner;
import berth.server.reservation.Reservations;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.process.ProcessRuntime;
import berth.v1.GpuRequest;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import berth.v1.RunSelection;
import berth.v1.Source;
import berth.v1.UserId;
import berth.v1.WaitTime;
import com.google.protobuf.ByteString;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs as real processes on one simulated GPU, through orderly restarts of the server. */
class RunsTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Owner ADA = new Owner("ada", "laptop");

  @TempDir private Path folder;
  private GpuMonitor gpus;
  private Reservations reservations;
  private FaultyRuntime runtime;
  private Runs runs;
  private Metrics metrics;
  private Runs.Storage storage = Disks.PLENTY;
  private final Disks.Fillable durable = new Disks.Fillable();
  private volatile boolean outOfThreads;

  @BeforeEach
  void open() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    describe("  processes\n");
    gpus =
        GpuMonitor.ofSimulation(
            folder.resolve("gpus.txt").toString(),
            "",
            new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
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
    Run second = runs.submit(request).run();
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
    Run run = runs.submit(request).run();
    end(run);
    assertThat(output(run)).isEqualTo("xyz\n");
    assertNoContent(run.spec());

    stop();
    start();

    assertNoContent(runs.find(run.id()).spec());
  }

  private static void assertNoContent(RequestedRun spec) {
    assertThat(((RequestedRun.Code.Source) spec.code()).content()).isEmpty();
    assertThat(spec.files()).containsOnlyKeys("file");
    assertThat(spec.files().get("file")).isEmpty();
  }

  @Test
  void filesCanBeHadWhileTheProgramRuns() throws Exception {
    Run run = submit("echo half >model; while [ ! -e go ]; do sleep 0.05; done; echo all >>model");
    awaitPhase(run, Phase.RUNNING);
    Path work = run.folder().work();
    await().atMost(PATIENCE).until(() -> Files.exists(work.resolve("model")));
    await().atMost(PATIENCE).until(() -> Files.size(work.resolve("model")) == 5);

    assertThat(download(run, "model")).isEqualTo(Map.of("model", "half\n"));

    Files.createFile(work.resolve("go"));
    end(run);
    assertThat(download(run, "model")).isEqualTo(Map.of("model", "half\nall\n"));
  }

  @Test
  void filesCannotBeHadBeforeTheProgramStarts() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo never");

    assertThatThrownBy(() -> download(second, "."))
        .hasMessage(second.id() + " has not started; its files can be copied once it has");
  }

  private Map<String, String> download(Run run, String path) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    runs.download(run.id(), List.of(path), out);
    return Tars.read(out.toByteArray());
  }

  @Test
  void whoCancelsWithoutANameIsNotShownAsOne() {
    for (Owner by : List.of(new Owner("", ""), new Owner("", "laptop"))) {
      Run run = submit("sleep 100");
      runs.cancel(run.id(), by, true);
      assertThat(end(run).message()).endsWith("cancelled");
    }
    Run run = submit("sleep 100");
    runs.cancel(run.id(), new Owner("ada", ""), true);
    assertThat(end(run).message()).endsWith("cancelled by ada");
  }

  @Test
  void aRunThatIsCancelledInTheQueueHoldsNothing() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo never");
    await().atMost(PATIENCE).until(() -> second.view().ahead().isPresent());

    runs.cancel(second.id(), ADA, false);

    assertThat(end(second).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(end(second).message()).contains("cancelled by ada@laptop");
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
    Runs.Submitted submitted = runs.submit(request("sleep 100", false));
    Run run = submitted.run();
    Runnable gone = submitted.unhold();
    awaitPhase(run, Phase.RUNNING);
    // Back in time.
    gone.run();
    gone = run.hold();
    gone.run();

    assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(end(run).message()).isEqualTo("client disconnected");
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
    Run run = runs.submit(request).run();
    awaitPhase(run, Phase.RUNNING);

    stop();
    start();
    describe("  utilization 4 0\n  processes\n");

    Run again = runs.find(run.id());
    assertThat(end(again).reason()).isEqualTo(ExitReason.IDLE);
    assertThat(end(again).message()).isEqualTo("GPUs idle: used less than 5 % for 1 s");
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
    durable.full = true;

    runs.cancel(run.id(), ADA, false);
    assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);

    stop();
    start();
    Run again = runs.find(run.id());
    assertThat(end(again).exitCode()).isEqualTo(143);
    durable.full = false;
    assertThat(end(submit("echo next")).reason()).isEqualTo(ExitReason.FINISHED);
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
        "there is no run '" + run.id() + "' on gpu01: unknown or already deleted");
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
        () -> runs.remove(run.id()), Reason.CONFLICT, run.id() + " has not ended; cancel it first");
    describe("  process 4242 100\n");
    touch(gate);
    await().atMost(PATIENCE).until(() -> run.view().settled());

    assertRefused(
        () -> runs.remove(run.id()),
        Reason.CONFLICT,
        run.id() + " has ended, but is not cleaned up yet");

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
    Run first = runs.submit(request).run();

    assertThat(runs.submit(request).run()).isSameAs(first);
    // By it a caller who heard nothing finds out whether there is such a run.
    assertThat(new RunMessages("gpu01").run(first).getRequest().getRequestId())
        .isEqualTo(request.getRequestId())
        .isNotEmpty();
    end(first);
    assertThat(runs.submit(request).run()).isSameAs(first);
  }

  @Test
  void whatWasAcceptedIsCarriedOutWhenThereAreThreadsAgain() {
    RunCodeRequest request =
        request("echo done", true).toBuilder().clearGpus().setRequestId("mine").build();
    outOfThreads = true;
    Run run = runs.submit(request).run();
    assertThat(run.view().waitingBecause()).isEqualTo("the server cannot start a thread");
    assertThat(runs.submit(request).run()).isSameAs(run);

    outOfThreads = false;

    assertThat(end(run).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(run)).isEqualTo("done\n");
    assertThat(run.view().waitingBecause()).isEmpty();
  }

  @Test
  void whoGetsGpusIsCarriedOutWhenThereAreThreadsAgain() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo second on $NV_GPU");
    Run third = submit("echo third");
    await().atMost(PATIENCE).until(() -> third.view().ahead().isPresent());
    outOfThreads = true;
    runs.cancel(first.id(), ADA, true);
    await().atMost(PATIENCE).until(() -> !second.view().waitingBecause().isEmpty());
    runs.cancel(third.id(), ADA, false);

    outOfThreads = false;

    assertThat(end(second).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(second)).isEqualTo("second on 0\n");
    assertThat(end(third).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(reservations.overview().reservations()).isEmpty();
  }

  @Test
  void aRestartCarriesOutWhatFoundNoThread() {
    outOfThreads = true;
    Runs.Submitted submitted = runs.submit(request("echo done", true));
    Run cancelled = submit("echo never");
    runs.cancel(cancelled.id(), ADA, false);
    stop();
    outOfThreads = false;

    start();

    Run again = runs.find(submitted.run().id());
    assertThat(end(again).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(again)).isEqualTo("done\n");
    assertThat(end(runs.find(cancelled.id())).reason()).isEqualTo(ExitReason.CANCELLED);
  }

  @Test
  void aCallerIsNotToldOfAFailureAndTheRunCarriedOutAllTheSame() {
    durable.failsAfterWriting = true;
    assertThatThrownBy(() -> submit("true")).hasMessage("the virtual machine failed");
    durable.failsAfterWriting = false;
    assertThat(folder.resolve("state/runs")).isEmptyDirectory();

    stop();
    start();

    assertThat(runs.all()).isEmpty();
    assertThat(end(submit("true")).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void nothingIsLeftOfARequestThatIsRefused() throws IOException {
    RunCodeRequest request =
        request("true", true).toBuilder().setGpus(GpuRequest.newBuilder().setCount(5)).build();

    assertThatThrownBy(() -> runs.submit(request).run())
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
    await().atMost(PATIENCE).until(() -> runs.find(run.id()).liveOutput().isPresent());
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

  @Test
  void whoWaitsDoesSoInTheOldOrderAfterARestartAndWithoutThreads() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    List<String> waiting = new ArrayList<>();
    for (int i = 0; i < 30; i++) {
      waiting.add(runs.submit(named("waiting " + i)).run().spec().name());
    }

    for (int restart = 0; restart < 3; restart++) {
      stop();
      start();
      assertThat(reservations.overview().waiting())
          .extracting(place -> place.request().purpose())
          .isEqualTo(waiting);
    }
    assertThat(Thread.getAllStackTraces().keySet())
        .filteredOn(thread -> thread.isAlive() && thread.getName().startsWith("run-run-"))
        .hasSize(1);
  }

  private static RunCodeRequest named(String name) {
    return request("true", true).toBuilder().setName(name).build();
  }

  @Test
  void whoWasAcceptedIsNotRefusedBecauseTheDriverComesLate() throws IOException {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo second");
    stop();
    Files.delete(folder.resolve("gpus.txt"));
    await().atMost(PATIENCE).until(() -> gpus.newest().problem().isPresent());

    start();

    Run again = runs.find(second.id());
    assertThat(again.view().record().phase()).isEqualTo(Phase.QUEUED);
    runs.cancel(first.id(), ADA, true);
    describe("  processes\n");
    assertThat(end(again).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void aProgramWhoseRecordIsDamagedGoesOnAndIsStartedOnce() throws IOException {
    Path gate = folder.resolve("gate");
    Path starts = folder.resolve("starts");
    Run run =
        submit("echo x >>" + starts + "; while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 3");
    awaitPhase(run, Phase.RUNNING);
    stop();
    Files.write(run.folder().state(), new byte[0]);

    start();

    touch(gate);
    assertThat(end(runs.find(run.id())).exitCode()).isEqualTo(3);
    assertThat(starts).hasContent("x");
    stop();
    start();
    assertThat(end(runs.find(run.id())).exitCode()).isEqualTo(3);
  }

  @Test
  void whatMayHaveBeenStartedIsNotStartedAgain() throws IOException {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Path starts = folder.resolve("starts");
    Run second = submit("echo x >>" + starts);
    stop();
    Files.write(second.folder().state(), new byte[100]);

    start();

    runs.cancel(first.id(), ADA, true);
    assertThat(end(runs.find(second.id())).reason()).isEqualTo(ExitReason.SERVER_LOST);
    assertThat(end(runs.find(second.id())).message())
        .isEqualTo("its state record was damaged, and it may have been started already");
    assertThat(starts).doesNotExist();
  }

  @Test
  void afterAPowerFailureWhatMayHaveBeenStartedIsLostAndWhatWaitedStillWaits() throws IOException {
    Path starts = folder.resolve("starts");
    Run first = submit("echo x >>" + starts + "; exec sleep 100");
    awaitPhase(first, Phase.RUNNING);
    await().atMost(PATIENCE).until(() -> Files.exists(starts));
    Run second = submit("echo y >>" + starts);
    runs.close();
    reservations.close();
    // As if the machine had been off: no process, no locks, and the mark of the start not on disk.
    ProcessHandle.of(first.view().started().orElseThrow().pid().getAsInt())
        .ifPresent(
            shell -> {
              shell.descendants().forEach(ProcessHandle::destroyForcibly);
              shell.destroyForcibly();
            });
    for (Run run : List.of(first, second)) {
      forgetBoot(run.folder().state());
    }
    try (Stream<Path> files = Files.list(OneServer.state(folder))) {
      for (Path file : files.filter(path -> path.toString().endsWith(".reservation")).toList()) {
        forgetBoot(file);
      }
    }
    WorkFiles.delete(first.folder().mark());

    start();

    assertThat(end(runs.find(first.id())).reason()).isEqualTo(ExitReason.SERVER_LOST);
    // The closed server of this process still has its lock, so the second one gets nothing.
    assertThat(runs.find(second.id()).view().record().phase()).isEqualTo(Phase.QUEUED);
    assertThat(starts).hasContent("x");
  }

  @Test
  void whatWasBeingPreparedBeforeARestartOfTheMachineComesBeforeThoseWhoWaited()
      throws IOException {
    Run first = submit("exec sleep 100");
    awaitPhase(first, Phase.RUNNING);
    List<Run> waiting = List.of(submit("true"), submit("true"), submit("true"));
    stop();
    // As if the first had only been made ready when the machine went off.
    runtime.signal(first.id(), "KILL");
    runtime.remove(first.id());
    for (Run run : List.of(first, waiting.get(0), waiting.get(1), waiting.get(2))) {
      forgetBoot(run.folder().state());
    }
    var record = RecordFile.readProperties(first.folder().state());
    record.setProperty("phase", Phase.PREPARING.name());
    record.keySet().removeIf(key -> key.toString().startsWith("started."));
    durable.write(first.folder().state(), RecordFile.content(record));
    WorkFiles.delete(first.folder().mark());
    try (Stream<Path> files = Files.list(OneServer.state(folder))) {
      for (Path file : files.filter(path -> path.toString().endsWith(".reservation")).toList()) {
        Files.delete(file);
      }
    }

    start();

    for (int i = 0; i < waiting.size(); i++) {
      assertThat(runs.find(waiting.get(i).id()).view().ahead()).hasValue(i + 1);
    }
  }

  @Test
  void aRunThatCannotBeReadAtPresentIsLeftAlone() throws IOException {
    Run run = submit("exec sleep 1000");
    awaitPhase(run, Phase.RUNNING);
    stop();
    // Reading fails, and not because of what is in it.
    Path request = run.folder().request();
    Path kept = request.resolveSibling("kept");
    Files.move(request, kept);
    Files.createDirectory(request);

    start();
    assertThat(runs.all()).isEmpty();
    assertThat(ProcessHandle.of(run.view().started().orElseThrow().pid().getAsInt())).isPresent();

    stop();
    Files.delete(request);
    Files.move(kept, request);
    start();
    assertThat(runs.find(run.id()).view().record().phase()).isEqualTo(Phase.RUNNING);
  }

  private void forgetBoot(Path state) throws IOException {
    var record = RecordFile.readProperties(state);
    record.setProperty("boot", "another");
    durable.write(state, RecordFile.content(record));
  }

  @Test
  void aRunOfWhichNothingCanBeReadIsSetAsideAndFreesItsGpus() throws IOException {
    Run run = submit("exec sleep 1000");
    awaitPhase(run, Phase.RUNNING);
    stop();
    Files.write(run.folder().request(), new byte[10]);
    Files.write(run.folder().content(), new byte[10]);

    start();

    await().atMost(PATIENCE).until(() -> !Files.exists(run.folder().path()));
    try (Stream<Path> left = Files.list(run.folder().path().getParent())) {
      assertThat(left)
          .singleElement()
          .satisfies(
              aside ->
                  assertThat(aside.getFileName().toString())
                      .startsWith("damaged-")
                      .endsWith(run.id()));
    }
    assertThat(end(submit("true")).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void aFullDiskRefusesWhatIsNewAndLosesNothing() throws IOException {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    Run second = submit("echo second");
    durable.full = true;

    assertThatThrownBy(() -> submit("echo third")).hasMessageContaining("No space left on device");

    runs.cancel(first.id(), ADA, true);
    durable.full = false;
    assertThat(end(second).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(output(second)).isEqualTo("second\n");
    assertThat(runs.all()).containsExactly(first, second);
  }

  @Test
  void noRunIsASupervisorEvenWhereRunsMayBeRoot() {
    RunCodeRequest asked =
        request("true", true).toBuilder()
            .setUser(UserId.newBuilder().setUid(2_100_000_005).setGid(2_100_000_005))
            .build();

    assertThatThrownBy(() -> runs.submit(asked))
        .hasMessageStartingWith("user 2100000005:2100000005 asked, but users and groups from")
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    assertThat(runs.all()).isEmpty();
  }

  @Test
  void nothingNewIsTakenWhenTheDiskIsNearlyFull() {
    storage = withLeastFree(Long.MAX_VALUE);
    stop();
    start();

    assertThatThrownBy(() -> submit("true"))
        .hasMessageMatching(
            "a run is refused: gpu01 has \\d+ MiB left on the disk of .*, less than \\d+ MiB"
                + " \\(--least-free-disk\\); remove old runs with 'berth rm', or free space"
                + " there");
    assertThatThrownBy(() -> runs.bundles().begin("0".repeat(64)))
        .hasMessageStartingWith("an upload is refused: gpu01 has ");
    assertThatThrownBy(() -> runs.unpackBundle("0".repeat(64), folder.resolve("cluster")))
        .hasMessageStartingWith("a cluster is refused: gpu01 has ");
    assertThat(folder.resolve("cluster")).doesNotExist();
  }

  private static Runs.Storage withLeastFree(long bytes) {
    return new Runs.Storage(
        Long.MAX_VALUE, Optional.of(bytes), Optional.of(1L << 20), 100, 100, Long.MAX_VALUE);
  }

  @Test
  void aRunThatFillsTheDiskIsEnded() {
    storage = withLeastFree(0);
    stop();
    start();

    Run run = submit("head -c 5000000 /dev/zero >file; exec sleep 1000");

    assertThat(end(run).reason()).isEqualTo(ExitReason.DISK_LIMIT);
    assertThat(end(run).message())
        .matches("disk limit exceeded: [\\d.]+ [KM]iB written, 1 MiB allowed \\(--work-limit\\)");
  }

  /** Its file has no name any more, but is still there. */
  @Test
  void aRunThatFillsTheDiskWithoutNamesIsEnded() {
    storage = withLeastFree(0);
    stop();
    start();

    Run run = submit("exec 3>file; rm file; head -c 5000000 /dev/zero >&3; exec sleep 1000");

    assertThat(end(run).reason()).isEqualTo(ExitReason.DISK_LIMIT);
  }

  @Test
  void aProgramCannotPutOffTheNextLookForLong() {
    Duration usual = Duration.ofSeconds(10);
    assertThat(RunTasks.pauseAfter(usual, Duration.ofMillis(1))).isEqualTo(usual);
    assertThat(RunTasks.pauseAfter(usual, Duration.ofSeconds(1))).isEqualTo(Duration.ofSeconds(20));
    assertThat(RunTasks.pauseAfter(usual, Duration.ofMinutes(9))).isEqualTo(Duration.ofMinutes(2));
  }

  @Test
  void theOldestRunsGoFirstWhenAllTogetherTakeTooMuch() {
    Run first = submit("head -c 500000 /dev/zero >file");
    end(first);
    Run second = submit("head -c 500000 /dev/zero >file");
    end(second);
    List<Run> forgotten = new ArrayList<>();
    Instant later = Instant.now().plus(Duration.ofHours(1));

    new Retention(Duration.ofDays(7), 1_200_000, 10, runs.bundles())
        .clear(runs.all(), Set.of(), later, forgotten::add);
    assertThat(forgotten).isEmpty();
    new Retention(Duration.ofDays(7), 600_000, 10, runs.bundles())
        .clear(runs.all(), Set.of(), later, forgotten::add);
    assertThat(forgotten).containsExactly(first);
    new Retention(Duration.ofMinutes(30), Long.MAX_VALUE, 10, runs.bundles())
        .clear(List.of(second), Set.of(), later, forgotten::add);
    assertThat(forgotten).containsExactly(first, second);
    new Retention(Duration.ofDays(7), Long.MAX_VALUE, 1, runs.bundles())
        .clear(List.of(second, first), Set.of(), later, forgotten::add);
    assertThat(forgotten).containsExactly(first, second, first);
  }

  @Test
  void theBundleOfAQueuedRunIsKeptHoweverLongItWaits() throws IOException {
    byte[] packed = new Tars().file("a", "x").bytes();
    String digest = Tars.sha256(packed);
    try (Bundles.Upload upload = runs.bundles().begin(digest)) {
      upload.write(ByteBuffer.wrap(packed));
      upload.finish();
    }
    Run first = submit("exec sleep 1000");
    awaitPhase(first, Phase.RUNNING);
    runs.submit(request("cat a", true).toBuilder().setBundle(digest).build());
    Path file = OneServer.state(folder).resolve("bundles").resolve(digest);
    stop();
    Files.setLastModifiedTime(file, FileTime.from(Instant.now().minus(Duration.ofDays(30))));

    start();
    await().atMost(PATIENCE).until(() -> runtime.reaps.get() > 0);

    assertThat(file).exists();
  }

  @Test
  void listsComeInPagesFromTheNewestToTheOldest() {
    Run first = submit("sleep 100");
    awaitPhase(first, Phase.RUNNING);
    List<String> ids = new ArrayList<>(List.of(first.id()));
    for (int i = 0; i < 6; i++) {
      ids.add(submit("true").id());
    }
    runs.cancel(ids.get(6), ADA, false);
    await().atMost(PATIENCE).until(() -> runs.find(ids.get(6)).over());
    RunPages pages = new RunPages("gpu01", runs.index(), new RunMessages("gpu01"));

    ListRunsResponse one = pages.page(ListRunsRequest.newBuilder().setPageSize(3).build());
    assertThat(one.getTotalCount()).isEqualTo(7);
    assertThat(idsOf(one)).containsExactly(ids.get(6), ids.get(5), ids.get(4));
    // One that goes moves no other.
    end(runs.find(ids.get(6)));
    runs.remove(ids.get(6));
    ListRunsResponse two =
        pages.page(
            ListRunsRequest.newBuilder()
                .setPageSize(3)
                .setPageToken(one.getNextPageToken())
                .build());
    assertThat(idsOf(two)).containsExactly(ids.get(3), ids.get(2), ids.get(1));
    ListRunsResponse three =
        pages.page(
            ListRunsRequest.newBuilder()
                .setPageSize(3)
                .setPageToken(two.getNextPageToken())
                .build());
    assertThat(idsOf(three)).containsExactly(ids.get(0));
    assertThat(three.getNextPageToken()).isEmpty();
    // As those ask who know of no pages.
    assertThat(idsOf(pages.page(ListRunsRequest.getDefaultInstance())))
        .isEqualTo(ids.subList(0, 6));
    assertThat(idsOf(pages.page(ListRunsRequest.newBuilder().setIdPrefix(ids.get(2)).build())))
        .containsExactly(ids.get(2));
    assertThat(
            pages
                .page(
                    ListRunsRequest.newBuilder()
                        .setSelection(RunSelection.RUN_SELECTION_ENDED)
                        .setPageSize(5)
                        .build())
                .getRunsCount())
        .isZero();
    assertThatThrownBy(() -> pages.page(ListRunsRequest.newBuilder().setPageToken("x").build()))
        .hasMessage("'x' is not the token of a page of this server");
  }

  private static List<String> idsOf(ListRunsResponse page) {
    return page.getRunsList().stream().map(berth.v1.Run::getRunId).toList();
  }

  /** Bundles that take as long to read as the test wants: pipes in the place of their files. */
  @Test
  void othersAreAcceptedWhileRunsWithMuchContentUnpackTheirBundles() throws Exception {
    ByteString most = ByteString.copyFrom(new byte[4 << 20]);
    List<Run> unpacking = new ArrayList<>();
    List<RandomAccessFile> pipes = new ArrayList<>();
    List<byte[]> tars = new ArrayList<>();
    try {
      // With a fourth, more than all of the memory.
      for (int i = 0; i < 3; i++) {
        byte[] tar = new Tars().file("number", i + "\n").bytes();
        tars.add(tar);
        pipes.add(pipeFor(tar));
        unpacking.add(
            runs.submit(
                    RunCodeRequest.newBuilder()
                        .setBundle(Tars.sha256(tar))
                        .addAllCommand(List.of("cat", "number"))
                        .putFiles("large", most)
                        .setDetached(true)
                        .build())
                .run());
      }
      for (int i = 0; i < 3; i++) {
        RandomAccessFile pipe = pipes.get(i);
        FileInputStream unread = new FileInputStream(pipe.getFD());
        pipe.write(tars.get(i), 0, 1);
        await().atMost(PATIENCE.multipliedBy(3)).until(() -> unread.available() == 0);
      }

      Run other =
          CompletableFuture.supplyAsync(
                  () ->
                      runs.submit(
                              request("wc -c < large", true).toBuilder()
                                  .putFiles("large", most)
                                  .build())
                          .run())
              .get(60, TimeUnit.SECONDS);

      assertThat(end(other).reason()).isEqualTo(ExitReason.FINISHED);
      assertThat(output(other).strip()).isEqualTo("" + most.size());
      for (int i = 0; i < 3; i++) {
        Files.delete(bundle(tars.get(i)));
        Files.write(bundle(tars.get(i)), tars.get(i));
        pipes.get(i).write(tars.get(i), 1, tars.get(i).length - 1);
      }
    } finally {
      for (RandomAccessFile pipe : pipes) {
        pipe.close();
      }
    }
    for (int i = 0; i < 3; i++) {
      assertThat(end(unpacking.get(i)).reason()).isEqualTo(ExitReason.FINISHED);
      assertThat(output(unpacking.get(i))).isEqualTo(i + "\n");
    }
  }

  private RandomAccessFile pipeFor(byte[] tar) throws Exception {
    try (Bundles.Upload upload = runs.bundles().begin(Tars.sha256(tar))) {
      upload.write(ByteBuffer.wrap(tar));
      upload.finish();
    }
    Path file = bundle(tar);
    Files.delete(file);
    assertThat(new ProcessBuilder("mkfifo", file.toString()).start().waitFor()).isZero();
    return new RandomAccessFile(file.toFile(), "rw");
  }

  private Path bundle(byte[] tar) {
    return OneServer.state(folder).resolve("bundles").resolve(Tars.sha256(tar));
  }

  @Test
  void theSameRequestAtTheSameTimeIsOneRun() {
    RunCodeRequest request = request("true", true).toBuilder().setRequestId("mine").build();
    List<Run> made =
        IntStream.range(0, 8)
            .mapToObj(i -> CompletableFuture.supplyAsync(() -> runs.submit(request).run()))
            .toList()
            .stream()
            .map(CompletableFuture::join)
            .distinct()
            .toList();

    assertThat(made).hasSize(1);
    assertThat(runs.all()).isEqualTo(made);
  }

  @Test
  void aReaderThatLeavesWhileOutputIsOpenedLeavesNoFileOpen() throws IOException {
    Run run = submit("echo much");
    end(run);
    RunReader reader = reader(run, OptionalLong.of(0));
    rest(reader);
    reader.close();
    RunReader late = reader(run, OptionalLong.of(0));
    late.close();
    rest(late);

    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      assertThat(open.map(RunsTest::target))
          .noneMatch(target -> target.contains(run.id() + "/spool"));
    }
  }

  private static String target(Path link) {
    try {
      return Files.readSymbolicLink(link).toString();
    } catch (IOException e) {
      return "";
    }
  }

  private void start() {
    metrics = new Metrics();
    Path state = OneServer.state(folder);
    reservations = OneServer.reservations(folder, gpus, durable, metrics);
    runtime = new FaultyRuntime(new ProcessRuntime(id -> Runs.folder(state, id), true));
    runs =
        Runs.open(
            OneServer.settings(folder, storage),
            reservations,
            gpus,
            runtime,
            durable,
            this::runThread,
            new Vitals(),
            metrics);
  }

  private Thread runThread(Runnable task) {
    if (outOfThreads) {
      // An OutOfMemoryError in reality, for which JUnit would give up all tests.
      throw new InternalError("unable to create native thread");
    }
    return new Thread(task);
  }

  private void stop() {
    runs.close();
    reservations.close();
  }

  private Run submit(String script) {
    return runs.submit(request(script, true)).run();
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
    replaceGpus("gpu GPU-0\n  name Simulated A100\n  memory 81920 0\n" + processes);
  }

  private void replaceGpus(String description) throws IOException {
    Path next = Files.writeString(folder.resolve("next.txt"), description);
    Files.move(next, folder.resolve("gpus.txt"), StandardCopyOption.ATOMIC_MOVE);
  }
}
