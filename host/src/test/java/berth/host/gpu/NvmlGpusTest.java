package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NvmlGpusTest {
  private static final Duration RETRY = Duration.ofSeconds(10);
  private static final Duration SOON = Duration.ofSeconds(30);

  @TempDir private Path folder;

  // Near its end, since a clock of nanoseconds may run over.
  private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - RETRY.toNanos() / 2);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void readsEverythingThatTheDriverTells(int generation) {
    GpuReading reading = standIn(generation, NvmlStandIn.RICH).gpus().read();

    assertThat(reading.problem()).isEmpty();
    assertThat(reading.driverVersion()).contains("550.54.15");
    assertThat(reading.cudaVersion()).contains("12.4");
    assertThat(reading.gpus())
        .containsExactly(
            new Gpu(
                0,
                "GPU-a",
                Optional.of("00000000:07:00.0"),
                Optional.of("NVIDIA A100-SXM4-80GB"),
                Optional.of(new Gpu.Memory(80L << 30, 1L << 30, 79L << 30)),
                Optional.of(new Gpu.Utilization(37, 12)),
                OptionalInt.of(41),
                OptionalInt.of(87_000),
                OptionalInt.of(400_000),
                Optional.of(
                    List.of(
                        process(99, OptionalLong.empty()),
                        process(4711, OptionalLong.of(512L << 20)))),
                OptionalLong.of(3),
                OptionalLong.of(1),
                generation == 1 ? Optional.empty() : Optional.of(true),
                GpuHealth.HEALTHY),
            new Gpu(
                1,
                "GPU-b",
                Optional.of("00000000:0F:00.0"),
                Optional.of("NVIDIA A100-SXM4-80GB"),
                Optional.of(new Gpu.Memory(80L << 30, 8L << 20, (80L << 30) - (8L << 20))),
                Optional.of(new Gpu.Utilization(0, 0)),
                OptionalInt.of(30),
                OptionalInt.of(52_000),
                OptionalInt.of(400_000),
                Optional.of(List.of()),
                OptionalLong.of(0),
                OptionalLong.of(0),
                generation == 1 ? Optional.empty() : Optional.of(false),
                GpuHealth.HEALTHY));
    assertThat(reading.links())
        .containsExactly(new GpuLink(0, 1, 4, Optional.of(GpuLink.PcieDistance.ONE_SWITCH)));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void leavesEmptyWhatTheDriverDoesNotSupport(int generation) {
    GpuReading reading = standIn(generation, NvmlStandIn.SPARSE).gpus().read();

    assertThat(reading)
        .isEqualTo(
            new GpuReading(
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                List.of(anonymous(0, "GPU-a"), anonymous(1, "GPU-b")),
                List.of()));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void listsAllProcessesByPidHoweverManyThereAre(int generation) {
    String processes =
        IntStream.rangeClosed(1, 40)
            .mapToObj(i -> "process " + (5000 - i) + " " + i + "\n")
            .collect(Collectors.joining());

    GpuReading reading = standIn(generation, "gpu GPU-a\n" + processes).gpus().read();

    assertThat(reading.gpus().get(0).processes().orElseThrow())
        .isEqualTo(
            IntStream.rangeClosed(4960, 4999)
                .mapToObj(pid -> process(pid, OptionalLong.of((5000L - pid) << 20)))
                .toList());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void writesABusIdInOneFormWhateverTheDriverWrites(int generation) {
    GpuReading reading =
        standIn(generation, "gpu GPU-a\nbus 0000:af:00.0\ngpu GPU-b\nbus 00000000:AF:00.1\n")
            .gpus()
            .read();

    assertThat(reading.gpus())
        .extracting(gpu -> gpu.pciBusId().orElseThrow())
        .containsExactly("00000000:AF:00.0", "00000000:AF:00.1");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void countsTheNvlinksBetweenTwoGpus(int generation) {
    GpuReading reading =
        standIn(
                generation,
                """
                gpu GPU-a
                  bus 0:01:00.0
                  nvlink 1 2
                  nvlink 2 3
                gpu GPU-b
                  bus 0:02:00.0
                  nvlink 0 2
                gpu GPU-c
                  bus 0:03:00.0
                  nvlink 0 3
                """)
            .gpus()
            .read();

    assertThat(reading.links())
        .containsExactly(
            new GpuLink(0, 1, 2, Optional.empty()), new GpuLink(0, 2, 3, Optional.empty()));
  }

  @Test
  void countsTheNvlinksThatLeadThroughASwitch() {
    GpuReading reading =
        standIn(
                3,
                """
                gpu GPU-a
                  bus 0:01:00.0
                  nvswitch 12
                gpu GPU-b
                  bus 0:02:00.0
                  nvswitch 6
                gpu GPU-c
                  bus 0:03:00.0
                """)
            .gpus()
            .read();

    assertThat(reading.links()).containsExactly(new GpuLink(0, 1, 6, Optional.empty()));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void tellsHowFarApartTwoGpusAreOnPcie(int generation) {
    String towards =
        IntStream.rangeClosed(1, 6)
            .mapToObj(i -> "pcie " + i + " " + 10 * (i - 1) + "\n")
            .collect(Collectors.joining());

    GpuReading reading =
        standIn(generation, "gpu GPU-0\n" + towards + "gpu GPU-x\n".repeat(6)).gpus().read();

    assertThat(reading.links())
        .extracting(link -> link.pcie().orElseThrow())
        .containsExactly(GpuLink.PcieDistance.values());
  }

  @Test
  void hasNoGpusAndSaysWhyOnAMachineWithoutTheLibrary() {
    String nowhere = folder.resolve(NvmlGpus.LIBRARY).toString();
    try (var gpus = new NvmlGpus(() -> NvmlGpus.load(nowhere), false, RETRY, nanos::get)) {
      GpuReading reading = gpus.read();

      assertThat(reading.gpus()).isEmpty();
      assertThat(reading.problem().orElseThrow())
          .startsWith("no NVIDIA driver on this machine: ")
          .contains(nowhere)
          .doesNotEndWith(":")
          .hasLineCount(1);
    }
  }

  @Test
  void looksForTheLibraryAgainAfterTheRetryTime() {
    NvmlStandIn installed = standIn(3, NvmlStandIn.SPARSE);
    AtomicLong attempts = new AtomicLong();
    var gpus =
        new NvmlGpus(
            () -> {
              if (attempts.incrementAndGet() == 1) {
                throw new UnsatisfiedLinkError("not yet");
              }
              return installed.library();
            },
            false,
            RETRY,
            nanos::get);

    assertThat(gpus.read().gpus()).isEmpty();
    assertThat(gpus.read().gpus()).isEmpty();
    nanos.addAndGet(RETRY.toNanos() - 1);
    assertThat(gpus.read().gpus()).isEmpty();
    assertThat(attempts).hasValue(1);
    nanos.addAndGet(1);
    assertThat(gpus.read().gpus()).hasSize(2);
    assertThat(gpus.read().gpus()).hasSize(2);
    assertThat(attempts).hasValue(2);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void initialisesAnUnloadedDriverAgainAfterTheRetryTime(int generation) {
    NvmlStandIn standIn = standIn(generation, "init 9\n" + NvmlStandIn.RICH);
    NvmlGpus gpus = standIn.gpus(RETRY, nanos::get);
    GpuReading unloaded = GpuReading.unreadable("nvmlInit: Driver Not Loaded (NVML error 9)");

    assertThat(gpus.read()).isEqualTo(unloaded);
    standIn.describe(NvmlStandIn.RICH);
    nanos.addAndGet(RETRY.toNanos() - 1);
    assertThat(gpus.read()).isEqualTo(unloaded);
    nanos.addAndGet(1);
    assertThat(gpus.read().gpus()).extracting(Gpu::uuid).containsExactly("GPU-a", "GPU-b");
    assertThat(gpus.read().problem()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(ints = {15, 16})
  void aLostGpuKeepsItsIdentityWhileTheOthersGoOnAndComesBackByItself(int code) {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.RICH);
    NvmlGpus gpus = standIn.gpus();
    List<Gpu> healthy = gpus.read().gpus();

    standIn.describe(NvmlStandIn.RICH + "status " + code + "\n");
    // Once with the session that lost it, once with a new one.
    for (int i = 0; i < 2; i++) {
      GpuReading reading = gpus.read();
      assertThat(reading.problem()).isEmpty();
      assertThat(reading.gpus())
          .containsExactly(
              healthy.get(0), silentAs(healthy.get(1), reading.gpus().get(1).health()));
      assertThat(reading.gpus().get(1).health().state()).isEqualTo(GpuHealth.State.LOST);
      assertThat(reading.gpus().get(1).health().reason())
          .contains(code == 15 ? "GPU is lost" : "GPU requires reset")
          .contains("(NVML error " + code + ")");
    }

    standIn.describe(NvmlStandIn.RICH);
    assertThat(gpus.read().gpus()).isEqualTo(healthy);
  }

  @Test
  void aGpuThatIsLostFromTheBeginningHasNoNameUntilItAppears() {
    NvmlStandIn standIn = standIn(3, "gpu GPU-a\nstatus 15\ngpu GPU-b\n");
    NvmlGpus gpus = standIn.gpus();

    List<Gpu> before = gpus.read().gpus();
    assertThat(before)
        .extracting(Gpu::index, Gpu::uuid, gpu -> gpu.health().state())
        .containsExactly(
            tuple(0, "", GpuHealth.State.LOST), tuple(1, "GPU-b", GpuHealth.State.HEALTHY));

    standIn.describe(NvmlStandIn.SPARSE);
    assertThat(gpus.read().gpus()).containsExactly(anonymous(0, "GPU-a"), anonymous(1, "GPU-b"));
  }

  @Test
  void aGpuThatTheDriverNoLongerListsIsLostUntilItIsListedAgain() {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.RICH);
    NvmlGpus gpus = standIn.gpus();
    List<Gpu> healthy = gpus.read().gpus();

    standIn.describe(NvmlStandIn.RICH.substring(0, NvmlStandIn.RICH.indexOf("gpu GPU-b")));
    var gone = new GpuHealth(GpuHealth.State.LOST, "the driver no longer lists this GPU");
    assertThat(gpus.read().gpus()).containsExactly(healthy.get(0), silentAs(healthy.get(1), gone));

    standIn.describe(NvmlStandIn.RICH);
    assertThat(gpus.read().gpus()).isEqualTo(healthy);
  }

  @Test
  void aGpuKeepsItsIdentityWhenItIsLostUnderTheIndexOfOneThatWasLostBefore() {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.SPARSE);
    NvmlGpus gpus = standIn.gpus();
    gpus.read();
    standIn.describe("gpu GPU-b\n");
    assertThat(gpus.read().gpus()).contains(anonymous(0, "GPU-b"));

    standIn.describe("gpu GPU-b\nstatus 999\n");

    assertThat(gpus.read().gpus())
        .extracting(Gpu::uuid, gpu -> gpu.health().state())
        .containsExactly(
            tuple("GPU-a", GpuHealth.State.LOST), tuple("GPU-b", GpuHealth.State.SICK));
  }

  @Test
  void aGpuThatMovedToAnotherIndexIsNotTakenForTheOneAtItsOldIndex() {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.SPARSE);
    NvmlGpus gpus = standIn.gpus();
    gpus.read();
    standIn.describe("gpu GPU-b\n");
    gpus.read();

    standIn.describe("gpu GPU-b\ngpu GPU-c\nstatus 15\n");

    assertThat(gpus.read().gpus())
        .extracting(Gpu::index, Gpu::uuid, gpu -> gpu.health().state())
        .containsExactly(
            tuple(0, "GPU-a", GpuHealth.State.LOST),
            tuple(0, "GPU-b", GpuHealth.State.HEALTHY),
            tuple(1, "", GpuHealth.State.LOST));
  }

  @Test
  void aGpuThatFailsForAnotherReasonIsSick() {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.RICH);
    NvmlGpus gpus = standIn.gpus();
    List<Gpu> healthy = gpus.read().gpus();

    standIn.describe(NvmlStandIn.RICH + "status 999\n");

    var sick =
        new GpuHealth(
            GpuHealth.State.SICK, "nvmlDeviceGetHandleByIndex: Unknown Error (NVML error 999)");
    assertThat(gpus.read().gpus()).containsExactly(healthy.get(0), silentAs(healthy.get(1), sick));
    standIn.describe(NvmlStandIn.RICH);
    assertThat(gpus.read().gpus()).isEqualTo(healthy);
  }

  @ParameterizedTest
  @ValueSource(ints = {15, 999})
  void theLinksOfAGpuAreThereAsLongAsItAnswers(int code) {
    NvmlStandIn standIn = standIn(3, NvmlStandIn.RICH + "status " + code + "\n");
    NvmlGpus gpus = standIn.gpus(RETRY, nanos::get);
    assertThat(gpus.read().links()).isEmpty();

    standIn.describe(NvmlStandIn.RICH);
    assertThat(gpus.read().links()).hasSize(1);
    standIn.describe(NvmlStandIn.RICH + "status " + code + "\n");
    assertThat(gpus.read().links()).isEmpty();
  }

  @Test
  void aGpuThatIsAddedAppearsWithItsLinks() {
    NvmlStandIn standIn = standIn(3, "gpu GPU-a\npcie 1 20\n");
    // The retry time is for failures; a new count is news at once.
    NvmlGpus gpus = standIn.gpus(RETRY, nanos::get);
    assertThat(gpus.read().gpus()).hasSize(1);

    standIn.describe("gpu GPU-a\npcie 1 20\ngpu GPU-b\n");

    GpuReading reading = gpus.read();
    assertThat(reading.gpus()).containsExactly(anonymous(0, "GPU-a"), anonymous(1, "GPU-b"));
    assertThat(reading.links())
        .containsExactly(new GpuLink(0, 1, 0, Optional.of(GpuLink.PcieDistance.SEVERAL_SWITCHES)));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void readsWhatTheDriverSaysThatAGpuNeedsIfItIsNewEnough(int generation) {
    String description =
        IntStream.range(0, 8)
            .mapToObj(action -> "gpu GPU-" + action + "\n  recovery_action " + action + "\n")
            .collect(Collectors.joining());
    NvmlGpus gpus = standIn(generation, description + "gpu GPU-old\n").gpus();

    for (int reading = 0; reading < 2; reading++) {
      List<Optional<RecoveryAction>> words =
          gpus.read().gpus().stream().map(gpu -> gpu.health().action()).toList();
      if (generation < 3) {
        assertThat(words).hasSize(9).containsOnly(Optional.empty());
      } else {
        assertThat(words)
            .containsExactly(
                Optional.of(RecoveryAction.NONE),
                Optional.of(RecoveryAction.GPU_RESET),
                Optional.of(RecoveryAction.NODE_REBOOT),
                Optional.of(RecoveryAction.DRAIN_P2P),
                Optional.of(RecoveryAction.DRAIN_AND_RESET),
                Optional.of(RecoveryAction.INSPECT),
                Optional.of(RecoveryAction.INSPECT),
                Optional.of(RecoveryAction.NODE_REBOOT),
                Optional.empty());
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void reportsEachCriticalErrorOnceWithTheGpuThatHadIt(int generation) throws Exception {
    NvmlStandIn standIn = standIn(generation, NvmlStandIn.SPARSE);
    NvmlGpus gpus = standIn.gpus();
    gpus.read();

    standIn.describe(NvmlStandIn.SPARSE + "xid 1 79\n");
    assertThat(gpus.awaitXid(SOON)).contains(new Xid("GPU-b", 79));
    assertThat(gpus.awaitXid(Duration.ZERO)).isEmpty();

    standIn.describe("gpu GPU-a\nxid 1 48\ngpu GPU-b\nxid 2 31\n");
    assertThat(List.of(gpus.awaitXid(SOON).orElseThrow(), gpus.awaitXid(SOON).orElseThrow()))
        .containsExactlyInAnyOrder(new Xid("GPU-a", 48), new Xid("GPU-b", 31));
    assertThat(gpus.awaitXid(Duration.ZERO)).isEmpty();
  }

  @Test
  void aCriticalErrorFromBeforeTheStartIsNoNews() throws Exception {
    NvmlGpus gpus = standIn(3, "gpu GPU-a\nxid 1 79\n").gpus();
    gpus.read();

    assertThat(gpus.awaitXid(Duration.ZERO)).isEmpty();
  }

  @Test
  void namesTheProcessesOfRealGpusOnly() {
    ProcessHandle self = ProcessHandle.current();
    NvmlStandIn standIn =
        standIn(
            3, "gpu GPU-a\nprocess " + self.pid() + " 1\nprocess " + Integer.MAX_VALUE + " 1\n");
    var real = new NvmlGpus(standIn::library, false, RETRY, nanos::get);

    assertThat(real.read().gpus().get(0).processes().orElseThrow())
        .extracting(Gpu.Process::user, Gpu.Process::command)
        .containsExactly(
            tuple(self.info().user(), Optional.of("java")),
            tuple(Optional.empty(), Optional.empty()));
    assertThat(standIn.gpus().read().gpus().get(0).processes().orElseThrow().get(0))
        .isEqualTo(process((int) self.pid(), OptionalLong.of(1 << 20)));
  }

  private NvmlStandIn standIn(int generation, String description) {
    return new NvmlStandIn(folder, generation, description);
  }

  private static Gpu anonymous(int index, String uuid) {
    return Gpu.silent(index, uuid, Optional.empty(), Optional.empty(), GpuHealth.HEALTHY);
  }

  private static Gpu silentAs(Gpu gpu, GpuHealth health) {
    return Gpu.silent(gpu.index(), gpu.uuid(), gpu.pciBusId(), gpu.name(), health);
  }

  private static Gpu.Process process(int pid, OptionalLong memory) {
    return new Gpu.Process(pid, memory, Optional.empty(), Optional.empty());
  }
}
