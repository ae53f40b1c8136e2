package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.SmallDisk;
import berth.metrics.Metrics;
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
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A disk that is full from exactly one step of a run on. Each run is started exactly once. */
class FullDiskTest {
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final String DISK_FULL = "the server's disk is full";

  /** The step after which there is no room any more. */
  private enum FullAfter {
    CREATE,
    LAUNCHING,
    START,
    EXIT,
    NOTHING
  }

  @TempDir private Path folder;
  private final DurableFiles durable = Disks.durable();
  private volatile FullAfter fullAfter = FullAfter.NOTHING;
  private SmallDisk disk;
  private Path starts;
  private Path gate;
  private GpuMonitor gpus;
  private Reservations reservations;
  private Runs runs;

  @BeforeEach
  void open() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    disk = new SmallDisk(Files.createDirectory(OneServer.state(folder)));
    starts = folder.resolve("starts");
    gate = folder.resolve("gate");
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
        runs.cancel(run.id(), new Owner("ada", "laptop"), true);
      }
      await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    }
    stop();
    gpus.close();
    durable.close();
    disk.close();
  }

  @Test
  void aRunThatIsReadyWaitsForRoomBeforeItStarts() throws Exception {
    Run run = submitFullAfter(FullAfter.CREATE);
    awaitWaiting(run);

    disk.empty();

    assertRanOnce(run);
  }

  @Test
  void aRunThatIsReadyWaitsForRoomAlsoOverARestart() throws Exception {
    Run run = submitFullAfter(FullAfter.CREATE);
    awaitWaiting(run);
    stop();
    start();
    Run again = runs.find(run.id());
    awaitWaiting(again);

    disk.empty();

    assertRanOnce(again);
  }

  @Test
  void aRunThatIsReadyIsCancelledWhileItWaitsForRoom() throws Exception {
    Run run = submitFullAfter(FullAfter.CREATE);
    awaitWaiting(run);

    runs.cancel(run.id(), new Owner("ada", "laptop"), false);

    assertThat(end(run).reason()).isEqualTo(ExitReason.CANCELLED);
    assertThat(reservations.overview().reservations()).isEmpty();
    assertThat(starts).doesNotExist();
    stop();
    start();
    assertThat(end(runs.find(run.id())).reason()).isEqualTo(ExitReason.CANCELLED);
  }

  @Test
  void aRunThatIsBeingStartedIsFoundAgainByTheNextServer() throws Exception {
    Run run = submitFullAfter(FullAfter.LAUNCHING);
    awaitPhaseOnDisk(run, Phase.RUNNING);
    stop();
    start();
    Run again = runs.find(run.id());
    assertThat(again.over()).isFalse();

    Files.createFile(gate);

    assertRanOnce(again);
  }

  @Test
  void aRunThatHasStartedGoesOnAndItsEndIsKnown() throws Exception {
    Run run = submitFullAfter(FullAfter.START);
    awaitPhase(run, Phase.RUNNING);
    awaitPhaseOnDisk(run, Phase.RUNNING);

    Files.createFile(gate);

    assertRanOnce(run);
  }

  @Test
  void aRunThatHasStartedGoesOnAndItsEndIsKnownAlsoOverARestart() throws Exception {
    Run run = submitFullAfter(FullAfter.START);
    awaitPhaseOnDisk(run, Phase.RUNNING);
    stop();
    start();
    Run again = runs.find(run.id());
    assertThat(again.view().record().started()).isEqualTo(run.view().record().started());

    Files.createFile(gate);

    assertRanOnce(again);
  }

  @Test
  void theEndOfARunIsKnownAfterARestart() throws Exception {
    Files.createFile(gate);
    Run run = submitFullAfter(FullAfter.EXIT);
    Ended end = assertRanOnce(run);
    awaitPhaseOnDisk(run, Phase.CLEANED);
    stop();
    start();

    Run again = runs.find(run.id());
    assertThat(again.view().record().phase()).isEqualTo(Phase.CLEANED);
    assertThat(again.view().record().ended()).contains(end);
    disk.empty();
    assertThat(starts).hasContent("x");
  }

  private Run submitFullAfter(FullAfter step) {
    fullAfter = step;
    return runs.submit(
            RunCodeRequest.newBuilder()
                .addAllCommand(
                    List.of(
                        "sh",
                        "-c",
                        "echo x >>"
                            + starts
                            + "; while [ ! -e "
                            + gate
                            + " ]; do sleep 0.05; done; exit 3"))
                .setGpus(GpuRequest.newBuilder().setCount(1))
                .setWait(WaitTime.newBuilder().setForever(true))
                .setDetached(true)
                .build())
        .run();
  }

  private void awaitWaiting(Run run) {
    await().atMost(PATIENCE).until(() -> run.view().waitingBecause().equals(DISK_FULL));
    assertThat(run.view().record().phase()).isEqualTo(Phase.PREPARING);
    assertThat(run.view().reservation()).isPresent();
    assertThat(reservations.overview().reservations())
        .singleElement()
        .satisfies(held -> assertThat(held.gpus()).hasSize(1));
    assertThat(starts).doesNotExist();
  }

  private Ended assertRanOnce(Run run) throws IOException {
    if (!Files.exists(gate)) {
      Files.createFile(gate);
    }
    Ended end = end(run);
    assertThat(end.reason()).isEqualTo(ExitReason.FINISHED);
    assertThat(end.exitCode()).isEqualTo(3);
    assertThat(starts).hasContent("x");
    assertThat(reservations.overview().reservations()).isEmpty();
    return end;
  }

  private static void awaitFile(Path file) {
    await().atMost(PATIENCE).until(() -> Files.exists(file));
  }

  private static void awaitPhase(Run run, Phase phase) {
    await().atMost(PATIENCE).until(() -> run.view().record().phase() == phase);
  }

  private static void awaitPhaseOnDisk(Run run, Phase phase) {
    await()
        .atMost(PATIENCE)
        .until(
            () ->
                RecordFile.readProperties(run.folder().state())
                    .getProperty("phase")
                    .equals(phase.name()));
  }

  private static Ended end(Run run) {
    await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    return run.view().record().ended().orElseThrow();
  }

  private void start() {
    Path state = OneServer.state(folder);
    Metrics metrics = new Metrics();
    reservations = OneServer.reservations(folder, gpus, durable, metrics);
    runs =
        Runs.open(
            OneServer.settings(
                folder,
                new Runs.Storage(
                    Long.MAX_VALUE, Optional.empty(), Optional.empty(), 100, 100, Long.MAX_VALUE)),
            reservations,
            gpus,
            new Filling(new ProcessRuntime(id -> Runs.folder(state, id), true)),
            durable,
            new Vitals(),
            metrics);
  }

  private void stop() {
    runs.close();
    reservations.close();
  }

  /** Runs processes, and fills the disk after one of the steps. */
  private final class Filling extends ForwardingRuntime {
    Filling(RunEngine real) {
      super(real);
    }

    @Override
    public Created create(Launch launch, Progress progress) throws InterruptedException {
      Created created = super.create(launch, progress);
      // The readers of its output are made at the same time, and need room too.
      awaitFile(launch.folder().io().resolve("stderr"));
      fillAfter(FullAfter.CREATE);
      return created;
    }

    @Override
    public Running start(Launch launch) throws InterruptedException {
      fillAfter(FullAfter.LAUNCHING);
      Running running = super.start(launch);
      awaitFile(starts);
      fillAfter(FullAfter.START);
      return running;
    }

    @Override
    public Exit await(String runId) throws InterruptedException {
      Exit exit = super.await(runId);
      fillAfter(FullAfter.EXIT);
      return exit;
    }

    private void fillAfter(FullAfter step) {
      if (fullAfter == step) {
        fullAfter = FullAfter.NOTHING;
        try {
          disk.fill();
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
      }
    }
  }
}
