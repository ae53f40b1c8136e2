package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Named.named;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Holds the stand-in in C, read through JNA, and the one in Java to the same readings. */
class SimulationContractTest {
  private static final Duration SOON = Duration.ofSeconds(30);

  private static final String TOPOLOGY =
      """
      gpu GPU-a
        bus 00000000:01:00.0
        nvlink 1 2
        nvswitch 6
        pcie 2 30
      gpu GPU-b
        bus 00000000:02:00.0
        nvlink 0 2
        pcie 3 50
        pcie 0 7
      gpu GPU-c
        bus 00000000:03:00.0
        nvswitch 4
      gpu GPU-d
        bus 00000000:04:00.0
        pcie 0 20
      """;

  @TempDir private Path folder;

  static Stream<Named<String>> descriptions() {
    return Stream.of(
        named("everything", NvmlStandIn.RICH),
        named("nothing optional", NvmlStandIn.SPARSE),
        named("no GPUs", "driver 470.1\ncuda 11040\n"),
        named("no driver", "init 9\n" + NvmlStandIn.RICH),
        named("another failure", "init 999\n" + NvmlStandIn.RICH),
        named("codes of success", "init 0\ngpu GPU-a\n  status 0\n"),
        named("lost from the beginning", NvmlStandIn.RICH + "  status 15\n"),
        named("sick from the beginning", NvmlStandIn.RICH + "  status 999\n"),
        named("topology", TOPOLOGY),
        named("topology with a lost GPU", TOPOLOGY.replace("  nvlink 0 2", "  status 16")),
        named("reset required", NvmlStandIn.RICH + "  status 16\n"),
        named(
            "recovery actions",
            "gpu GPU-a\n  recovery_action 0\ngpu GPU-b\n  recovery_action 4\ngpu GPU-c\n"
                + "  recovery_action 9\ngpu GPU-d\n"),
        named("bus ids of older drivers", "gpu GPU-a\n  bus 0000:af:00.0\n"),
        named("comments and blank lines", "# one\n\n   \n\tgpu   GPU-a\n  # two\n  mig 1\n"),
        named("unordered processes", "gpu GPU-a\nprocess 9 1\nprocess 7 -\nprocess 8 0\n"),
        named("eight GPUs", Simulation.describe(8, "x")),
        named("as many GPUs as there can be", Simulation.describe(64, "x")));
  }

  @ParameterizedTest
  @MethodSource("descriptions")
  void bothReadTheSame(String description) {
    NvmlStandIn standIn = new NvmlStandIn(folder, 3, description);

    assertThat(standIn.gpus().read()).isEqualTo(new SimulatedGpus(standIn.description()).read());
  }

  @Test
  void bothReadTheSameWithoutAFile() throws Exception {
    NvmlStandIn standIn = new NvmlStandIn(folder, 3, NvmlStandIn.RICH);
    Files.delete(standIn.description());

    assertThat(standIn.gpus().read())
        .isEqualTo(GpuReading.unreadable("nvmlInit: Driver Not Loaded (NVML error 9)"))
        .isEqualTo(new SimulatedGpus(standIn.description()).read());
  }

  @Test
  void bothReadTheSameWhileGpusComeAndGo() {
    NvmlStandIn standIn = new NvmlStandIn(folder, 3, NvmlStandIn.RICH);
    NvmlGpus inC = standIn.gpus();
    SimulatedGpus inJava = new SimulatedGpus(standIn.description());

    for (String description :
        List.of(
            NvmlStandIn.RICH + "status 15\n",
            NvmlStandIn.RICH,
            NvmlStandIn.RICH + "status 15\n",
            NvmlStandIn.RICH + "status 999\n",
            NvmlStandIn.RICH,
            NvmlStandIn.RICH.substring(0, NvmlStandIn.RICH.indexOf("gpu GPU-b")),
            "gpu GPU-b\n",
            NvmlStandIn.RICH + "gpu GPU-c\n")) {
      standIn.describe(description);
      assertThat(inC.read()).as(description).isEqualTo(inJava.read());
    }
  }

  @Test
  void bothReportTheSameCriticalErrors() throws Exception {
    NvmlStandIn standIn = new NvmlStandIn(folder, 3, "gpu GPU-a\nxid 1 48\ngpu GPU-b\n");
    for (GpuSource source : List.of(standIn.gpus(), new SimulatedGpus(standIn.description()))) {
      standIn.describe("gpu GPU-a\nxid 1 48\ngpu GPU-b\n");
      source.read();
      assertThat(source.awaitXid(Duration.ZERO)).isEmpty();

      standIn.describe("gpu GPU-a\nxid 1 48\ngpu GPU-b\nxid 1 79\n");
      assertThat(source.awaitXid(SOON)).contains(new Xid("GPU-b", 79));
      assertThat(source.awaitXid(Duration.ZERO)).isEmpty();

      standIn.describe("gpu GPU-a\nxid 2 31\ngpu GPU-b\nxid 1 79\nxid 2 94\nstatus 15\n");
      assertThat(source.awaitXid(SOON)).contains(new Xid("GPU-a", 31));
      assertThat(source.awaitXid(SOON)).contains(new Xid("GPU-b", 94));
      assertThat(source.awaitXid(Duration.ZERO)).isEmpty();
    }
  }
}
