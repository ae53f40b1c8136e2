package berth.host.gpu;

import static berth.host.gpu.FakeNvml.DEVICE;
import static berth.host.gpu.FakeNvml.put;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.host.gpu.NvmlLibrary.NvmlEventData;
import berth.host.gpu.NvmlLibrary.NvmlFieldValue;
import berth.host.gpu.NvmlLibrary.NvmlMemory;
import berth.host.gpu.NvmlLibrary.NvmlMemoryV2;
import berth.host.gpu.NvmlLibrary.NvmlPciInfoV2;
import berth.host.gpu.NvmlLibrary.NvmlProcessInfo;
import berth.host.gpu.NvmlLibrary.NvmlProcessInfoV1;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@link NvmlSession} and {@link NvmlGpus} without the native library. */
class NvmlSessionTest {
  private static final int LOST = NvmlLibrary.NVML_ERROR_GPU_IS_LOST;

  @AfterEach
  void leaveNoInterruptForOthers() {
    Thread.interrupted();
  }

  @ParameterizedTest
  @EnumSource
  void callsThePlainFunctionsOfADriverThatHasNoOthersAndDoesNotLookForThemAgain(
      FakeNvml.Lacking lacking) throws Exception {
    FakeNvml nvml =
        FakeNvml.ofOneGpu(lacking)
            .with("nvmlSystemGetCudaDriverVersion", in -> put((IntByReference) in[0], 8000))
            .with("nvmlDeviceGetPciInfo", in -> put(((NvmlPciInfoV2) in[1]).busId, "0000:07:00.0"))
            .with("nvmlDeviceGetMemoryInfo", in -> memory((NvmlMemory) in[1], 100, 60))
            .with(
                "nvmlDeviceGetComputeRunningProcesses",
                in -> process((IntByReference) in[1], (NvmlProcessInfoV1[]) in[2]));
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      for (int i = 0; i < 3; i++) {
        assertThat(session.deviceCount()).isEqualTo(1);
        assertThat(session.device(0)).isEqualTo(DEVICE);
        assertThat(session.cudaVersion()).contains("8.0");
        assertThat(session.pciBusId(DEVICE)).contains("00000000:07:00.0");
        assertThat(session.memory(DEVICE)).contains(new Gpu.Memory(100, 40, 60));
        assertThat(session.processes(DEVICE)).contains(List.of(process(7, 70)));
      }
    }

    for (String missing :
        List.of(
            "nvmlInit_v2",
            "nvmlDeviceGetCount_v2",
            "nvmlDeviceGetHandleByIndex_v2",
            "nvmlSystemGetCudaDriverVersion_v2",
            "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetPciInfo_v2",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetComputeRunningProcesses_v2")) {
      assertThat(nvml.calls(missing)).as(missing).isEqualTo(1);
    }
    assertThat(nvml.calls("nvmlDeviceGetMemoryInfo")).isEqualTo(3);
  }

  @ParameterizedTest
  @EnumSource
  void prefersTheNewestVariantThatTheDriverHas(FakeNvml.Lacking lacking) throws Exception {
    FakeNvml nvml =
        FakeNvml.ofOneGpu(lacking)
            .with(
                "nvmlDeviceGetPciInfo_v2", in -> put(((NvmlPciInfoV2) in[1]).busId, "0000:08:00.0"))
            .with("nvmlDeviceGetPciInfo", in -> put(((NvmlPciInfoV2) in[1]).busId, "old"))
            .with("nvmlDeviceGetMemoryInfo_v2", in -> memory((NvmlMemoryV2) in[1], 100, 60))
            .with("nvmlDeviceGetMemoryInfo", in -> memory((NvmlMemory) in[1], 1, 1))
            .with(
                "nvmlDeviceGetComputeRunningProcesses_v2",
                in -> process((IntByReference) in[1], (NvmlProcessInfo[]) in[2]));
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      for (int i = 0; i < 2; i++) {
        assertThat(session.pciBusId(DEVICE)).contains("00000000:08:00.0");
        assertThat(session.memory(DEVICE)).contains(new Gpu.Memory(100, 40, 60));
        assertThat(session.processes(DEVICE)).contains(List.of(process(7, 70)));
      }
    }

    assertThat(nvml.calls("nvmlDeviceGetPciInfo_v3")).isEqualTo(1);
    assertThat(nvml.calls("nvmlDeviceGetPciInfo")).isZero();
    assertThat(nvml.calls("nvmlDeviceGetMemoryInfo")).isZero();
    assertThat(nvml.calls("nvmlDeviceGetComputeRunningProcesses_v3")).isEqualTo(1);
  }

  @ParameterizedTest
  @EnumSource
  void leavesEmptyWhatTheDriverHasNoFunctionForAndAsksOnlyOnce(FakeNvml.Lacking lacking)
      throws Exception {
    FakeNvml nvml = FakeNvml.ofOneGpu(lacking);
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      for (int i = 0; i < 2; i++) {
        assertThat(session.cudaVersion()).isEmpty();
        assertThat(session.pciBusId(DEVICE)).isEmpty();
        assertThat(session.memory(DEVICE)).isEmpty();
        assertThat(session.utilization(DEVICE)).isEmpty();
        assertThat(session.temperatureCelsius(DEVICE)).isEmpty();
        assertThat(session.powerMilliwatts(DEVICE)).isEmpty();
        assertThat(session.powerLimitMilliwatts(DEVICE)).isEmpty();
        assertThat(session.correctedEccErrors(DEVICE)).isEmpty();
        assertThat(session.uncorrectedEccErrors(DEVICE)).isEmpty();
        assertThat(session.migEnabled(DEVICE)).isEmpty();
        assertThat(session.processes(DEVICE)).isEmpty();
        assertThat(session.nvlinks(DEVICE)).isEmpty();
        assertThat(session.pcieDistance(DEVICE, DEVICE)).isEmpty();
        assertThat(session.reportsXids()).isFalse();
      }
    }

    for (String missing :
        List.of(
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetTotalEccErrors",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetNvLinkState",
            "nvmlEventSetCreate")) {
      assertThat(nvml.calls(missing)).as(missing).isEqualTo(1);
    }
  }

  @ParameterizedTest
  @EnumSource
  void refusesADriverThatCannotBeInitialised(FakeNvml.Lacking lacking) {
    assertThatThrownBy(() -> new NvmlSession(new FakeNvml(lacking).library()))
        .isInstanceOf(NvmlException.class)
        .hasMessage("nvmlInit: so it says (NVML error 13)");
  }

  @Test
  void doesNotMistakeAnErrorForAMissingFunction() throws Exception {
    FakeNvml nvml =
        oneGpu()
            .with("nvmlDeviceGetMemoryInfo_v2", in -> 999)
            .with("nvmlDeviceGetMemoryInfo", in -> memory((NvmlMemory) in[1], 1, 1))
            .with("nvmlDeviceGetPciInfo_v3", in -> 999)
            .with("nvmlDeviceGetPciInfo", in -> put(((NvmlPciInfoV2) in[1]).busId, "old"));
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      assertThatThrownBy(() -> session.memory(DEVICE))
          .isInstanceOf(NvmlException.class)
          .hasMessage("nvmlDeviceGetMemoryInfo: so it says (NVML error 999)");
      assertThat(session.pciBusId(DEVICE)).isEmpty();
    }
  }

  @Test
  void aFieldThatFailsIsEmptyUnlessTheGpuIsLost() throws Exception {
    FakeNvml nvml =
        oneGpu()
            .with("nvmlDeviceGetTemperature", in -> 999)
            .with("nvmlDeviceGetPowerUsage", in -> LOST);
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      assertThat(session.temperatureCelsius(DEVICE)).isEmpty();
      assertThatThrownBy(() -> session.powerMilliwatts(DEVICE))
          .isInstanceOf(NvmlException.class)
          .hasMessage("nvmlDeviceGetPowerUsage: so it says (NVML error 15)");
    }
  }

  @Test
  void countsWhatTheDriverKeepsForItselfAsUsedMemory() throws Exception {
    FakeNvml nvml =
        oneGpu()
            .with(
                "nvmlDeviceGetMemoryInfo_v2",
                in -> {
                  ((NvmlMemoryV2) in[1]).reserved = 30;
                  ((NvmlMemoryV2) in[1]).used = 10;
                  return memory((NvmlMemoryV2) in[1], 100, 60);
                });
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      assertThat(session.memory(DEVICE)).contains(new Gpu.Memory(100, 40, 60));
    }
  }

  @Test
  void makesMoreRoomAsLongAsMoreProcessesStart() throws Exception {
    var running = new AtomicLong(10);
    FakeNvml nvml =
        oneGpu()
            .with(
                "nvmlDeviceGetComputeRunningProcesses_v3",
                in -> {
                  var count = (IntByReference) in[1];
                  int now = (int) running.getAndUpdate(before -> Math.min(2 * before, 160));
                  int room = count.getValue();
                  count.setValue(now);
                  if (now > room) {
                    return NvmlLibrary.NVML_ERROR_INSUFFICIENT_SIZE;
                  }
                  for (int i = 0; i < now; i++) {
                    ((NvmlProcessInfo[]) in[2])[i].pid = now - i;
                  }
                  return NvmlLibrary.NVML_SUCCESS;
                });
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      assertThat(session.processes(DEVICE).orElseThrow()).hasSize(10);
      assertThat(session.processes(DEVICE).orElseThrow())
          .hasSize(160)
          .extracting(Gpu.Process::pid)
          .isSorted();
    }
  }

  @ParameterizedTest
  @EnumSource
  void waitsForErrorsWithTheFunctionThatTheDriverHas(FakeNvml.Lacking lacking) throws Exception {
    FakeNvml nvml = FakeNvml.ofOneGpu(lacking).withEvents(in -> xid((NvmlEventData) in[1], 79));
    nvml.with("nvmlDeviceGetSupportedEventTypes", in -> put((LongByReference) in[1], 1 | 8));
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      session.uuid(DEVICE);
      session.uuid(DEVICE);

      assertThat(session.awaitXid(0)).contains(new Xid("GPU-a", 79));
      assertThat(session.awaitXid(0)).contains(new Xid("GPU-a", 79));
    }

    assertThat(nvml.calls("nvmlDeviceRegisterEvents")).isEqualTo(1);
    assertThat(nvml.calls("nvmlEventSetWait_v2")).isEqualTo(1);
    assertThat(nvml.calls("nvmlEventSetFree")).isEqualTo(1);
    assertThat(nvml.calls("nvmlShutdown")).isEqualTo(1);
  }

  @Test
  void asksForNoErrorsOfAGpuThatReportsNone() throws Exception {
    FakeNvml nvml = oneGpu().withEvents(in -> NvmlLibrary.NVML_ERROR_TIMEOUT);
    nvml.with("nvmlDeviceGetSupportedEventTypes", in -> put((LongByReference) in[1], 1));
    try (NvmlSession session = new NvmlSession(nvml.library())) {
      assertThat(session.uuid(DEVICE)).isEqualTo("GPU-a");
    }
    assertThat(nvml.calls("nvmlDeviceRegisterEvents")).isZero();
  }

  @Test
  void theWaitForErrorsLastsItsTimeAlsoWhenTheDriverRefusesToWait() {
    // As it does while a GPU is lost; whoever waits in a loop would never rest.
    NvmlGpus gpus = gpus(oneGpu().withEvents(in -> LOST), Duration.ZERO, new AtomicLong());
    gpus.read();

    Thread.currentThread().interrupt();

    assertThatThrownBy(() -> gpus.awaitXid(Duration.ofHours(1)))
        .isInstanceOf(InterruptedException.class);
  }

  @Test
  void theWaitForErrorsLastsItsTimeAlsoWithoutADriver() {
    NvmlGpus gpus = gpus(new FakeNvml(FakeNvml.Lacking.SYMBOL), Duration.ZERO, new AtomicLong());
    gpus.read();

    Thread.currentThread().interrupt();

    assertThatThrownBy(() -> gpus.awaitXid(Duration.ofHours(1)))
        .isInstanceOf(InterruptedException.class);
  }

  @Test
  void initialisesNvmlAgainForALostGpuButNotBeforeTheRetryTime() {
    var nanos = new AtomicLong();
    FakeNvml nvml = oneGpu();
    NvmlGpus gpus = gpus(nvml, Duration.ofSeconds(10), nanos);
    gpus.read();
    nanos.addAndGet(Duration.ofSeconds(10).toNanos());
    gpus.read();
    assertThat(nvml.calls("nvmlInit")).isEqualTo(1);

    nvml.with("nvmlDeviceGetHandleByIndex", in -> LOST);
    gpus.read();
    assertThat(gpus.read().gpus()).hasSize(1);
    assertThat(nvml.calls("nvmlInit")).isEqualTo(2);
    nanos.addAndGet(Duration.ofSeconds(10).toNanos() - 1);
    gpus.read();
    assertThat(nvml.calls("nvmlInit")).isEqualTo(2);
    nanos.addAndGet(1);
    gpus.read();
    assertThat(nvml.calls("nvmlInit")).isEqualTo(3);
    assertThat(nvml.calls("nvmlShutdown")).isEqualTo(2);
  }

  @Test
  void aDriverThatStopsAnsweringIsClosedAndOpenedAgainAfterTheRetryTime() {
    var nanos = new AtomicLong();
    FakeNvml nvml = oneGpu();
    NvmlGpus gpus = gpus(nvml, Duration.ofSeconds(10), nanos);
    assertThat(gpus.read().problem()).isEmpty();

    nvml.with("nvmlDeviceGetCount", in -> 999);
    GpuReading unreadable =
        GpuReading.unreadable("nvmlDeviceGetCount: so it says (NVML error 999)");
    assertThat(gpus.read()).isEqualTo(unreadable);
    assertThat(nvml.calls("nvmlShutdown")).isEqualTo(1);
    nanos.addAndGet(Duration.ofSeconds(10).toNanos());
    assertThat(gpus.read()).isEqualTo(unreadable);
    assertThat(nvml.calls("nvmlShutdown")).isEqualTo(2);

    nvml.with("nvmlDeviceGetCount", in -> put((IntByReference) in[0], 1));
    nanos.addAndGet(Duration.ofSeconds(10).toNanos());
    assertThat(gpus.read().gpus()).hasSize(1);
    gpus.close();
    assertThat(nvml.calls("nvmlInit")).isEqualTo(3);
    assertThat(nvml.calls("nvmlShutdown")).isEqualTo(3);
  }

  @ParameterizedTest
  @CsvSource({"1, 4294967297", "5, -4294967295", "3, 1", "2, 1", "4, 1"})
  void readsTheRecoveryActionWhateverIntegerTheDriverWrites(int type, long union) {
    FakeNvml nvml =
        oneGpu()
            .with(
                "nvmlDeviceGetFieldValues",
                in -> {
                  var field = (NvmlFieldValue) in[2];
                  assertThat(in[1]).isEqualTo(1);
                  assertThat(field.fieldId).isEqualTo(230);
                  field.valueType = type;
                  field.value = union;
                  return NvmlLibrary.NVML_SUCCESS;
                });

    assertThat(gpus(nvml, Duration.ZERO, new AtomicLong()).read().gpus().get(0).health())
        .isEqualTo(GpuHealth.answering(Optional.of(RecoveryAction.GPU_RESET)));
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 13, 999})
  void aDriverThatDoesNotKnowTheFieldHasNoWord(int refusal) {
    FakeNvml nvml =
        oneGpu()
            .with(
                "nvmlDeviceGetFieldValues",
                in -> {
                  ((NvmlFieldValue) in[2]).nvmlReturn = refusal;
                  return NvmlLibrary.NVML_SUCCESS;
                });
    assertThat(gpus(nvml, Duration.ZERO, new AtomicLong()).read().gpus().get(0).health())
        .isEqualTo(GpuHealth.HEALTHY);
    nvml.with("nvmlDeviceGetFieldValues", in -> refusal);
    assertThat(gpus(nvml, Duration.ZERO, new AtomicLong()).read().gpus().get(0).health())
        .isEqualTo(GpuHealth.HEALTHY);
  }

  @Test
  void aGpuThatIsLostInTheMiddleOfAReadingIsLost() {
    FakeNvml nvml = oneGpu().with("nvmlDeviceGetMigMode", in -> LOST);

    assertThat(gpus(nvml, Duration.ZERO, new AtomicLong()).read().gpus())
        .containsExactly(
            Gpu.silent(
                0,
                "GPU-a",
                Optional.empty(),
                Optional.empty(),
                new GpuHealth(
                    GpuHealth.State.LOST, "nvmlDeviceGetMigMode: so it says (NVML error 15)")));
  }

  private static FakeNvml oneGpu() {
    return FakeNvml.ofOneGpu(FakeNvml.Lacking.SYMBOL);
  }

  private static NvmlGpus gpus(FakeNvml nvml, Duration retryAfter, AtomicLong nanos) {
    return new NvmlGpus(nvml::library, true, retryAfter, nanos::get);
  }

  private static int memory(NvmlMemory to, long total, long free) {
    to.total = total;
    to.free = free;
    return NvmlLibrary.NVML_SUCCESS;
  }

  private static int memory(NvmlMemoryV2 to, long total, long free) {
    to.total = total;
    to.free = free;
    return NvmlLibrary.NVML_SUCCESS;
  }

  private static int process(IntByReference count, NvmlProcessInfoV1[] infos) {
    infos[0].pid = 7;
    infos[0].usedGpuMemory = 70;
    return put(count, 1);
  }

  private static int process(IntByReference count, NvmlProcessInfo[] infos) {
    infos[0].pid = 7;
    infos[0].usedGpuMemory = 70;
    return put(count, 1);
  }

  private static Gpu.Process process(int pid, long memory) {
    return new Gpu.Process(pid, OptionalLong.of(memory), Optional.empty(), Optional.empty());
  }

  private static int xid(NvmlEventData to, int code) {
    to.device = DEVICE;
    to.eventType = NvmlLibrary.NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
    to.eventData = code;
    return NvmlLibrary.NVML_SUCCESS;
  }
}
