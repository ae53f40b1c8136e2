package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
import com.sun.jna.ptr.IntByReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@link GpuMonitor} with its threads, from start to close. */
class GpuMonitorLifeTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final int UNINITIALIZED = 1;
  private static final GpuMonitor.Timing TIMING =
      new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofMillis(500));

  // For those who do not want to see a busy machine taken for a driver that hangs.
  private static final GpuMonitor.Timing PATIENT =
      new GpuMonitor.Timing(Duration.ofMillis(50), PATIENCE);

  @TempDir private Path folder;

  @Test
  void samplesUntilItIsClosedAndThenShutsTheDriverDown() throws Exception {
    var standIn = new NvmlStandIn(folder, 3, NvmlStandIn.SPARSE);
    GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), TIMING);
    assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
    assertThat(standIn.library().nvmlDeviceGetCount(new IntByReference())).isZero();

    monitor.close();

    assertThat(standIn.library().nvmlDeviceGetCount(new IntByReference())).isEqualTo(UNINITIALIZED);
  }

  @Test
  void canBeClosedWhileTheDriverHangs() {
    var standIn = new NvmlStandIn(folder, 3, "hang\n");
    try (standIn;
        GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), TIMING)) {
      await()
          .atMost(PATIENCE)
          .until(() -> monitor.newest().problem().orElseThrow().contains("0.5 s"));
    }
  }

  @Test
  void goesOnAfterADescriptionThatCannotBeRead() throws Exception {
    var standIn = new NvmlStandIn(folder, 3, "gpu GPU-a\n");
    try (GpuMonitor monitor = GpuMonitor.start(new SimulatedGpus(standIn.description()), PATIENT)) {
      assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
      standIn.describe("gpu GPU-a\n  memory many\n  xid one\n");
      await()
          .atMost(PATIENCE)
          .until(() -> monitor.newest().problem().orElse("").startsWith("reading the GPUs failed"));
      standIn.describe(NvmlStandIn.SPARSE);
      await().atMost(PATIENCE).until(() -> monitor.newest().gpus().size() == 2);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void aGpuWithACriticalErrorComesBackByItselfOnlyIfTheDriverSaysThatItNeedsNothing(int generation)
      throws Exception {
    String well = "gpu GPU-a\n  recovery_action 0\n";
    try (var standIn = new NvmlStandIn(folder, generation, well);
        var files = new DurableFiles(new Vitals());
        GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), PATIENT, host(files))) {
      assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
      var sick = new CountDownLatch(1);
      monitor.listen(new OnSick(sick));
      standIn.describe(well + "  xid 1 79\n");
      assertThat(sick.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
      monitor.awaitSampleSince(monitor.nowNanos(), PATIENCE).orElseThrow();

      assertThat(monitor.newest().gpus().get(0).health().healthy()).isEqualTo(generation == 3);
    }
    if (generation < 3) {
      Path next = Files.createDirectory(folder.resolve("next"));
      try (var standIn = new NvmlStandIn(next, generation, well);
          var files = new DurableFiles(new Vitals());
          GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), PATIENT, host(files))) {
        assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
        assertThat(monitor.newest().gpus().get(0).health().advice()).isEqualTo("reboot");
        assertThat(monitor.heal("GPU-a", false).health().healthy()).isTrue();
      }
    }
  }

  @Test
  void aGpuThatFellOffTheBusIsKnownAfterARestartAlthoughItDoesNotAnswer() throws Exception {
    try (var standIn = new NvmlStandIn(folder, 2, NvmlStandIn.SPARSE);
        var files = new DurableFiles(new Vitals());
        GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), PATIENT, host(files))) {
      assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
      standIn.describe(NvmlStandIn.SPARSE + "  xid 1 79\n");
      await()
          .atMost(PATIENCE)
          .until(() -> monitor.newest().gpus().get(1).health().advice().equals("reboot"));
    }
    Path next = Files.createDirectory(folder.resolve("next"));
    try (var standIn = new NvmlStandIn(next, 2, NvmlStandIn.SPARSE + "  status 15\n");
        var files = new DurableFiles(new Vitals());
        GpuMonitor monitor = GpuMonitor.start(standIn.gpus(), PATIENT, host(files))) {
      assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
      Gpu lost = monitor.newest().gpus().get(1);
      assertThat(lost.uuid()).isEqualTo("GPU-b");
      assertThat(lost.health().state()).isEqualTo(GpuHealth.State.LOST);
      assertThat(lost.health().advice()).isEqualTo("reboot");
    }
  }

  private GpuMonitor.Host host(DurableFiles files) {
    return new GpuMonitor.Host(folder.resolve("state"), files, new Vitals());
  }

  private record OnSick(CountDownLatch sick) implements GpuListener {
    @Override
    public void sampled(GpuSample sample) {}

    @Override
    public void healthChanged(GpuHealthChange change) {
      if (change.after().state() == GpuHealth.State.SICK) {
        sick.countDown();
      }
    }

    @Override
    public void stopped() {}
  }
}
