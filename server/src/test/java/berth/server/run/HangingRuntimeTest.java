package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.reservation.Reservations;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.process.ProcessRuntime;
import berth.v1.Limits;
import berth.v1.RunCodeRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What an engine that does not answer must not stop. */
class HangingRuntimeTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @TempDir private Path folder;
  private final CountDownLatch released = new CountDownLatch(1);
  private final DurableFiles durable = Disks.durable();
  private GpuMonitor gpus;
  private Reservations reservations;
  private Hanging runtime;
  private Runs runs;

  @BeforeEach
  void open() throws Exception {
    Path locks = Files.createDirectory(folder.resolve("locks"));
    Path state = OneServer.state(folder);
    gpus =
        GpuMonitor.ofSimulation(
            "1", "gpu01", new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    gpus.awaitFirstSample(PATIENCE);
    Metrics metrics = new Metrics();
    reservations = OneServer.reservations(folder, gpus, durable, metrics);
    runtime = new Hanging(new ProcessRuntime(id -> Runs.folder(state, id), true), released);
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

  @AfterEach
  void close() {
    released.countDown();
    runs.close();
    reservations.close();
    gpus.close();
    durable.close();
  }

  /** The memory of a run is asked of the engine every two seconds. */
  @Test
  void timeLimitsGoOnWhileTheEngineDoesNotSayHowMuchMemoryARunUses() throws Exception {
    Run run = submit();
    assertThat(runtime.peakAsked.await(60, TimeUnit.SECONDS)).isTrue();
    await().atMost(PATIENCE).until(() -> run.cleaned().isDone());
    assertThat(run.view().record().ended().orElseThrow().reason()).isEqualTo(ExitReason.TIME_LIMIT);
  }

  @Test
  void aRequestIsRefusedFromWhatIsKnownWhenTheEngineDoesNotAnswer() {
    runtime.problem = Optional.of("no Docker engine answers");
    // Somebody looks every few seconds.
    await().atMost(PATIENCE).until(() -> runs.load().problem().isPresent());
    runtime.hangs = true;
    assertThatThrownBy(this::submit)
        .hasMessageMatching("no Docker engine answers|the container engine does not answer")
        .extracting("reason")
        .isEqualTo(Reason.UNAVAILABLE);
  }

  /** The first time is at the start; here it hangs. */
  @Test
  void houseIsNotKeptTwiceAtOnce() throws Exception {
    assertThat(runtime.reaping.await(60, TimeUnit.SECONDS)).isTrue();

    CompletableFuture.runAsync(runs::keepHouse).get(60, TimeUnit.SECONDS);

    assertThat(runtime.reaped).hasValue(1);
    released.countDown();
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              runs.keepHouse();
              return runtime.reaped.get() > 1;
            });
  }

  private Run submit() {
    RunCodeRequest request =
        RunCodeRequest.newBuilder()
            .addAllCommand(List.of("sleep", "1000"))
            .setDetached(true)
            .setLimits(
                Limits.newBuilder()
                    .setTime(com.google.protobuf.Duration.newBuilder().setSeconds(1)))
            .build();
    return runs.submit(request).run();
  }

  /** Runs processes, and hangs where an engine would. */
  private static final class Hanging extends ForwardingRuntime {
    private final CountDownLatch released;
    private final CountDownLatch peakAsked = new CountDownLatch(1);
    private final CountDownLatch reaping = new CountDownLatch(1);
    private final AtomicInteger reaped = new AtomicInteger();
    private volatile Optional<String> problem = Optional.empty();
    private volatile boolean hangs;

    Hanging(RunEngine real, CountDownLatch released) {
      super(real);
      this.released = released;
    }

    private void hang() {
      try {
        released.await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public Optional<String> problem() {
      if (hangs) {
        hang();
      }
      return problem;
    }

    @Override
    public void reap(Predicate<String> knownRun) {
      reaped.incrementAndGet();
      reaping.countDown();
      hang();
      super.reap(knownRun);
    }

    @Override
    public OptionalLong peakMemory(String runId) {
      peakAsked.countDown();
      hang();
      return OptionalLong.empty();
    }
  }
}
