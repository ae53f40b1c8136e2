package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
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
import berth.v1.RunCodeRequest;
import berth.v1.WaitTime;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Trouble of the server ends no run that was accepted: it waits, says why, and goes on. */
class ServerTroubleTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Owner ADA = new Owner("ada", "laptop");
  private static final BerthException AWAY =
      new BerthException(Reason.UNAVAILABLE, "no Docker engine answers");

  @TempDir private Path folder;
  private final Disks.Fillable durable = new Disks.Fillable();
  private GpuMonitor gpus;
  private Reservations reservations;
  private FaultyRuntime runtime;
  private Runs runs;

  @BeforeEach
  void open() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    gpus =
        GpuMonitor.ofSimulation(
            "1", "gpu01", new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    gpus.awaitFirstSample(PATIENCE);
    start();
  }

  @AfterEach
  void close() {
    for (Run run : runs.all()) {
      if (!run.over()) {
        runs.cancel(run.id(), ADA, true);
      }
      run.cleaned().orTimeout(60, TimeUnit.SECONDS).join();
    }
    stop();
    gpus.close();
    durable.close();
  }

  @Test
  void aRunWaitsForAnEngineThatIsAwayWithItsGpusAndSaysWhy() {
    runtime.creationFails = Optional.of(AWAY);
    Run run = submit("echo started");
    Run next = submit("echo next");

    awaitReason(run, "no Docker engine answers");

    assertThat(run.view().record().phase()).isEqualTo(Phase.PREPARING);
    assertThat(next.view().record().phase()).isEqualTo(Phase.QUEUED);
    assertThat(reservations.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.runIds()).containsExactly(run.id()));
    runtime.creationFails = Optional.empty();
    assertThat(end(run).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(run.view().waitingBecause()).isEmpty();
    assertThat(end(next).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void aStartThatTheEngineFailsIsTriedAgainAndTheProgramStartsOnce() throws IOException {
    Path starts = folder.resolve("starts");
    runtime.startFails = Optional.of(AWAY);
    Run run = submit("echo x >>" + starts);

    awaitReason(run, "no Docker engine answers");

    assertThat(run.view().record().phase()).isEqualTo(Phase.LAUNCHING);
    runtime.startFails = Optional.empty();
    assertThat(end(run).reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(starts).hasContent("x");
  }

  @Test
  void aFolderThatCannotBeWrittenIsWaitedForWhateverRoomTheDiskHas() {
    runtime.creationFails =
        Optional.of(new UncheckedIOException(new IOException("Disk quota exceeded")));
    Run run = submit("true");

    awaitReason(run, "Disk quota exceeded");

    runtime.creationFails = Optional.empty();
    assertThat(end(run).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void whoWaitsForTheServerCanBeCancelledAtOnceAndFreesItsGpus() {
    for (boolean launching : List.of(false, true)) {
      runtime.creationFails = launching ? Optional.empty() : Optional.of(AWAY);
      runtime.startFails = Optional.of(AWAY);
      Run run = submit("true");
      awaitReason(run, "no Docker engine answers");

      runs.cancel(run.id(), ADA, false);

      assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);
      assertThat(reservations.overview().reservations()).isEmpty();
    }
  }

  @Test
  void whatIsWrongWithTheRequestEndsItAtOnce() {
    runtime.creationFails =
        Optional.of(new BerthException(Reason.CONFLICT, "the container cannot be started"));
    assertThat(end(submit("true")).reason()).isEqualTo(ExitReason.START_FAILED);
    runtime.creationFails = Optional.of(new BerthException(Reason.NOT_FOUND, "no such image"));
    assertThat(end(submit("true")).reason()).isEqualTo(ExitReason.IMAGE_NOT_FOUND);
  }

  @Test
  void aRunThatWaitsForTheServerStillDoesAfterARestart() {
    runtime.creationFails = Optional.of(AWAY);
    Run run = submit("true");
    awaitReason(run, "no Docker engine answers");

    stop();
    start();

    assertThat(end(runs.find(run.id())).reason()).isEqualTo(ExitReason.FINISHED);
  }

  @Test
  void filesThatCannotBeBesideEachOtherAreNoTroubleOfTheServer() {
    for (IOException never :
        List.of(
            new FileSystemException("x", null, "File name too long"),
            new FileAlreadyExistsException("x"))) {
      assertThat(ServerTrouble.of(new UncheckedIOException(never))).isEmpty();
      assertThat(ServerTrouble.of(new BerthException(Reason.UNAVAILABLE, "x", never))).isEmpty();
    }
    IOException later = new FileSystemException("x", null, "No space left on device");
    assertThat(ServerTrouble.of(new UncheckedIOException(later)).orElseThrow())
        .hasMessage("the server cannot prepare it: x: No space left on device");
    assertThat(ServerTrouble.of(new BerthException(Reason.CONFLICT, "x"))).isEmpty();
  }

  @Test
  void isWaitedForALittleLongerEachTimeAndForAnHourAtMost() {
    AtomicLong now = new AtomicLong();
    ServerTrouble trouble = new ServerTrouble(Optional.empty(), () -> false, now::get);

    assertThat(IntStream.range(0, 7).mapToObj(i -> trouble.pause().toSeconds()))
        .containsExactly(1L, 2L, 4L, 8L, 16L, 30L, 30L);
    assertThat(trouble.lastsTooLong(false)).isFalse();
    now.addAndGet(Duration.ofMinutes(59).toNanos());
    assertThat(trouble.lastsTooLong(false)).isFalse();
    now.addAndGet(Duration.ofMinutes(1).toNanos());
    assertThat(trouble.lastsTooLong(false)).isTrue();
  }

  @Test
  void whoWantedToWaitForLessThanThatDoesButNeverLessThanAMinute() {
    AtomicLong now = new AtomicLong();
    ServerTrouble none = new ServerTrouble(Optional.of(Duration.ZERO), () -> false, now::get);
    ServerTrouble some =
        new ServerTrouble(Optional.of(Duration.ofMinutes(5)), () -> false, now::get);
    assertThat(none.lastsTooLong(false) || some.lastsTooLong(false)).isFalse();
    now.addAndGet(Duration.ofMinutes(1).toNanos());
    assertThat(none.lastsTooLong(false)).isTrue();
    assertThat(some.lastsTooLong(false)).isFalse();
    now.addAndGet(Duration.ofMinutes(4).toNanos());
    assertThat(some.lastsTooLong(false)).isTrue();
  }

  @Test
  void aServerOnWhichNothingCanRunIsWaitedForHoweverLong() {
    AtomicLong now = new AtomicLong();
    AtomicBoolean down = new AtomicBoolean(true);
    ServerTrouble trouble = new ServerTrouble(Optional.empty(), down::get, now::get);
    for (int day = 0; day < 3; day++) {
      assertThat(trouble.lastsTooLong(false)).isFalse();
      now.addAndGet(Duration.ofDays(1).toNanos());
    }
    assertThat(trouble.lastsTooLong(false)).isFalse();
    down.set(false);
    now.addAndGet(Duration.ofHours(1).toNanos());
    assertThat(trouble.lastsTooLong(false)).isTrue();
  }

  @Test
  void anImageThatCannotBeFetchedIsWaitedForForAMinute() {
    AtomicLong now = new AtomicLong();
    ServerTrouble trouble = new ServerTrouble(Optional.empty(), () -> false, now::get);
    assertThat(trouble.lastsTooLong(true)).isFalse();
    now.addAndGet(Duration.ofMinutes(1).toNanos());
    assertThat(trouble.lastsTooLong(false)).isFalse();
    assertThat(trouble.lastsTooLong(true)).isTrue();
  }

  private void start() {
    Path state = OneServer.state(folder);
    Metrics metrics = new Metrics();
    reservations = OneServer.reservations(folder, gpus, durable, metrics);
    runtime = new FaultyRuntime(new ProcessRuntime(id -> Runs.folder(state, id), true));
    runs =
        Runs.open(
            OneServer.settings(folder, Disks.PLENTY),
            reservations,
            gpus,
            runtime,
            durable,
            new Vitals(),
            metrics);
  }

  private void stop() {
    runs.close();
    reservations.close();
  }

  private Run submit(String script) {
    return runs.submit(
            RunCodeRequest.newBuilder()
                .addAllCommand(List.of("sh", "-c", script))
                .setGpus(GpuRequest.newBuilder().setCount(1))
                .setWait(WaitTime.newBuilder().setForever(true))
                .setDetached(true)
                .build())
        .run();
  }

  private static void awaitReason(Run run, String reason) {
    await()
        .atMost(PATIENCE)
        .failFast(() -> assertThat(run.view().record().ended()).isEmpty())
        .until(() -> run.view().waitingBecause().contains(reason));
  }

  private static Ended end(Run run) {
    await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    return run.view().record().ended().orElseThrow();
  }
}
