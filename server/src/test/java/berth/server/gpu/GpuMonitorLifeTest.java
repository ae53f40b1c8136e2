package berth.server.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.sun.jna.ptr.IntByReference;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@link GpuMonitor} with its threads, from start to close. */
class GpuMonitorLifeTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final int UNINITIALIZED = 1;
  private static final GpuMonitor.Timing TIMING =
      new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofMinutes(10), Duration.ofMillis(500));

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
    try (GpuMonitor monitor = GpuMonitor.start(new SimulatedGpus(standIn.description()), TIMING)) {
      assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
      standIn.describe("gpu GPU-a\n  memory many\n  xid one\n");
      await()
          .atMost(PATIENCE)
          .until(() -> monitor.newest().problem().orElse("").startsWith("reading the GPUs failed"));
      standIn.describe(NvmlStandIn.SPARSE);
      await().atMost(PATIENCE).until(() -> monitor.newest().gpus().size() == 2);
    }
  }
}
