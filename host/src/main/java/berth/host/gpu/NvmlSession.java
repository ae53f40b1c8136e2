package berth.host.gpu;

import berth.host.gpu.NvmlLibrary.NvmlEventData;
import berth.host.gpu.NvmlLibrary.NvmlFieldValue;
import berth.host.gpu.NvmlLibrary.NvmlMemory;
import berth.host.gpu.NvmlLibrary.NvmlMemoryV2;
import berth.host.gpu.NvmlLibrary.NvmlPciInfo;
import berth.host.gpu.NvmlLibrary.NvmlPciInfoV2;
import berth.host.gpu.NvmlLibrary.NvmlProcessInfo;
import berth.host.gpu.NvmlLibrary.NvmlProcessInfoV1;
import berth.host.gpu.NvmlLibrary.NvmlUtilization;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * NVML between one initialisation and its shutdown. Every return code is checked here: a field that
 * the driver does not support is empty, a lost GPU is an {@link NvmlException}. One thread uses it.
 */
final class NvmlSession implements AutoCloseable {
  /** Stands for every NVLink switch in {@link #nvlinks}. */
  static final String SWITCH = "switch";

  private static final int TEXT_BYTES = 96;

  private final NvmlLibrary nvml;
  private final Map<String, Integer> firstUsableVariant = new HashMap<>();
  private final Map<Pointer, String> uuids = new HashMap<>();
  private final Optional<Pointer> events;

  /**
   * Initialises NVML.
   *
   * @throws NvmlException if there is no driver, or it refuses
   */
  NvmlSession(NvmlLibrary nvml) throws NvmlException {
    this.nvml = nvml;
    require("nvmlInit", newest("nvmlInit", nvml::nvmlInit_v2, nvml::nvmlInit));
    PointerByReference set = new PointerByReference();
    events =
        ifSupported(
            newest("nvmlEventSetCreate", () -> nvml.nvmlEventSetCreate(set)), set::getValue);
  }

  @Override
  public void close() {
    events.ifPresent(nvml::nvmlEventSetFree);
    nvml.nvmlShutdown();
  }

  Optional<String> driverVersion() {
    return text((buffer, size) -> nvml.nvmlSystemGetDriverVersion(buffer, size));
  }

  Optional<String> cudaVersion() {
    IntByReference version = new IntByReference();
    int result =
        newest(
            "nvmlSystemGetCudaDriverVersion",
            () -> nvml.nvmlSystemGetCudaDriverVersion_v2(version),
            () -> nvml.nvmlSystemGetCudaDriverVersion(version));
    return ifSupported(result, () -> GpuReading.cudaVersion(version.getValue()));
  }

  int deviceCount() throws NvmlException {
    IntByReference count = new IntByReference();
    require(
        "nvmlDeviceGetCount",
        newest(
            "nvmlDeviceGetCount",
            () -> nvml.nvmlDeviceGetCount_v2(count),
            () -> nvml.nvmlDeviceGetCount(count)));
    return count.getValue();
  }

  Pointer device(int index) throws NvmlException {
    PointerByReference device = new PointerByReference();
    require(
        "nvmlDeviceGetHandleByIndex",
        newest(
            "nvmlDeviceGetHandleByIndex",
            () -> nvml.nvmlDeviceGetHandleByIndex_v2(index, device),
            () -> nvml.nvmlDeviceGetHandleByIndex(index, device)));
    return device.getValue();
  }

  /** The identity of a GPU; from its first call on, the GPU's critical errors are reported too. */
  String uuid(Pointer device) throws NvmlException {
    byte[] buffer = new byte[TEXT_BYTES];
    require("nvmlDeviceGetUUID", nvml.nvmlDeviceGetUUID(device, buffer, buffer.length));
    String uuid = Native.toString(buffer);
    if (uuids.put(device, uuid) == null && events.isPresent()) {
      LongByReference types = new LongByReference();
      long xid = NvmlLibrary.NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
      boolean supported =
          newest(
                      "nvmlDeviceGetSupportedEventTypes",
                      () -> nvml.nvmlDeviceGetSupportedEventTypes(device, types))
                  == NvmlLibrary.NVML_SUCCESS
              && (types.getValue() & xid) != 0;
      if (supported) {
        // A refusal costs us the events, not the GPU.
        nvml.nvmlDeviceRegisterEvents(device, xid, events.get());
      }
    }
    return uuid;
  }

  Optional<String> name(Pointer device) {
    return text((buffer, size) -> nvml.nvmlDeviceGetName(device, buffer, size));
  }

  Optional<String> pciBusId(Pointer device) {
    NvmlPciInfo pci = new NvmlPciInfo();
    NvmlPciInfoV2 old = new NvmlPciInfoV2();
    int result =
        newest(
            "nvmlDeviceGetPciInfo",
            () -> nvml.nvmlDeviceGetPciInfo_v3(device, pci),
            () -> nvml.nvmlDeviceGetPciInfo_v2(device, old),
            () -> nvml.nvmlDeviceGetPciInfo(device, old));
    return ifSupported(result, () -> busId(pci, old));
  }

  /**
   * The memory. The one query that every GPU answers if it can, so a failure of it says something
   * about the GPU.
   *
   * @throws NvmlException on any failure but "not supported"
   */
  Optional<Gpu.Memory> memory(Pointer device) throws NvmlException {
    NvmlMemoryV2 info = new NvmlMemoryV2();
    NvmlMemory old = new NvmlMemory();
    int result =
        newest(
            "nvmlDeviceGetMemoryInfo",
            () -> nvml.nvmlDeviceGetMemoryInfo_v2(device, info),
            () -> nvml.nvmlDeviceGetMemoryInfo(device, old));
    if (result == NvmlLibrary.NVML_ERROR_NOT_SUPPORTED
        || result == NvmlLibrary.NVML_ERROR_FUNCTION_NOT_FOUND) {
      return Optional.empty();
    }
    require("nvmlDeviceGetMemoryInfo", result);
    // Version 2 counts what the driver keeps apart from what is used, version 1 does not: to us it
    // is all used.
    long total = Math.max(info.total, old.total);
    long free = Math.max(info.free, old.free);
    return Optional.of(new Gpu.Memory(total, total - free, free));
  }

  Optional<Gpu.Utilization> utilization(Pointer device) throws NvmlException {
    NvmlUtilization rates = new NvmlUtilization();
    return value(
        "nvmlDeviceGetUtilizationRates",
        () -> nvml.nvmlDeviceGetUtilizationRates(device, rates),
        () -> new Gpu.Utilization(rates.gpu, rates.memory));
  }

  OptionalInt temperatureCelsius(Pointer device) throws NvmlException {
    return number(
        "nvmlDeviceGetTemperature",
        out -> nvml.nvmlDeviceGetTemperature(device, NvmlLibrary.NVML_TEMPERATURE_GPU, out));
  }

  OptionalInt powerMilliwatts(Pointer device) throws NvmlException {
    return number("nvmlDeviceGetPowerUsage", out -> nvml.nvmlDeviceGetPowerUsage(device, out));
  }

  OptionalInt powerLimitMilliwatts(Pointer device) throws NvmlException {
    return number(
        "nvmlDeviceGetEnforcedPowerLimit",
        out -> nvml.nvmlDeviceGetEnforcedPowerLimit(device, out));
  }

  Optional<Boolean> migEnabled(Pointer device) throws NvmlException {
    OptionalInt mode =
        number(
            "nvmlDeviceGetMigMode",
            out -> nvml.nvmlDeviceGetMigMode(device, out, new IntByReference()));
    return mode.isPresent() ? Optional.of(mode.getAsInt() != 0) : Optional.empty();
  }

  OptionalLong correctedEccErrors(Pointer device) throws NvmlException {
    return eccErrors(device, NvmlLibrary.NVML_MEMORY_ERROR_TYPE_CORRECTED);
  }

  OptionalLong uncorrectedEccErrors(Pointer device) throws NvmlException {
    return eccErrors(device, NvmlLibrary.NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
  }

  private OptionalLong eccErrors(Pointer device, int type) throws NvmlException {
    LongByReference count = new LongByReference();
    Optional<Long> errors =
        value(
            "nvmlDeviceGetTotalEccErrors",
            () ->
                nvml.nvmlDeviceGetTotalEccErrors(
                    device, type, NvmlLibrary.NVML_VOLATILE_ECC, count),
            count::getValue);
    return errors.isPresent() ? OptionalLong.of(errors.get()) : OptionalLong.empty();
  }

  /** What the driver says that the GPU needs; empty if it has no word for that. */
  Optional<RecoveryAction> recoveryAction(Pointer device) throws NvmlException {
    NvmlFieldValue field = new NvmlFieldValue();
    field.fieldId = NvmlLibrary.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
    int result =
        newest("nvmlDeviceGetFieldValues", () -> nvml.nvmlDeviceGetFieldValues(device, 1, field));
    // The call may succeed without the field.
    return checked(
            "nvmlDeviceGetFieldValues",
            result == NvmlLibrary.NVML_SUCCESS ? field.nvmlReturn : result,
            () -> field)
        .filter(told -> told.valueType != NvmlLibrary.NVML_VALUE_TYPE_DOUBLE)
        .map(told -> RecoveryAction.ofNvml(number(told)));
  }

  // Of a union, a short member is at the beginning, and the rest is whatever it was. Every machine
  // that has a driver is little-endian.
  private static long number(NvmlFieldValue field) {
    boolean isInt =
        field.valueType == NvmlLibrary.NVML_VALUE_TYPE_UNSIGNED_INT
            || field.valueType == NvmlLibrary.NVML_VALUE_TYPE_SIGNED_INT;
    return isInt ? (int) field.value : field.value;
  }

  /** The compute processes by ascending pid, without names. */
  Optional<List<Gpu.Process>> processes(Pointer device) throws NvmlException {
    for (int room = 16; ; ) {
      int size = room;
      IntByReference count = new IntByReference(size);
      var infos = (NvmlProcessInfo[]) new NvmlProcessInfo().toArray(size);
      var old = (NvmlProcessInfoV1[]) new NvmlProcessInfoV1().toArray(size);
      int result =
          newest(
              "nvmlDeviceGetComputeRunningProcesses",
              () -> nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos),
              () -> nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, count, infos),
              () -> nvml.nvmlDeviceGetComputeRunningProcesses(device, count, old));
      if (result != NvmlLibrary.NVML_ERROR_INSUFFICIENT_SIZE) {
        // Only one of the two arrays was filled; a pid is never 0.
        return checked(
            "nvmlDeviceGetComputeRunningProcesses",
            result,
            () ->
                Stream.concat(
                        Arrays.stream(infos).map(i -> process(i.pid, i.usedGpuMemory)),
                        Arrays.stream(old).map(i -> process(i.pid, i.usedGpuMemory)))
                    .filter(process -> process.pid() != 0)
                    .sorted(Comparator.comparingInt(Gpu.Process::pid))
                    .toList());
      }
      // More may have started meanwhile, hence the reserve.
      room = count.getValue() + 16;
    }
  }

  private static Gpu.Process process(int pid, long memory) {
    return new Gpu.Process(
        pid,
        memory == NvmlLibrary.NVML_VALUE_NOT_AVAILABLE
            ? OptionalLong.empty()
            : OptionalLong.of(memory),
        Optional.empty(),
        Optional.empty());
  }

  Optional<GpuLink.PcieDistance> pcieDistance(Pointer device, Pointer other) {
    IntByReference level = new IntByReference();
    int result =
        newest(
            "nvmlDeviceGetTopologyCommonAncestor",
            () -> nvml.nvmlDeviceGetTopologyCommonAncestor(device, other, level));
    return ifSupported(result, level::getValue).flatMap(GpuLink.PcieDistance::ofNvmlLevel);
  }

  /**
   * The active NVLinks of a GPU, counted by the PCI bus id at their other end; all switches count
   * as {@link #SWITCH}.
   */
  Map<String, Integer> nvlinks(Pointer device) {
    Map<String, Integer> links = new HashMap<>();
    for (int i = 0; i < NvmlLibrary.NVML_NVLINK_MAX_LINKS; i++) {
      int link = i;
      IntByReference active = new IntByReference();
      int result =
          newest(
              "nvmlDeviceGetNvLinkState",
              () -> nvml.nvmlDeviceGetNvLinkState(device, link, active));
      if (result != NvmlLibrary.NVML_SUCCESS) {
        break;
      }
      if (active.getValue() != 0) {
        remote(device, link).ifPresent(remote -> links.merge(remote, 1, Integer::sum));
      }
    }
    return links;
  }

  private Optional<String> remote(Pointer device, int link) {
    IntByReference type = new IntByReference();
    int result =
        newest(
            "nvmlDeviceGetNvLinkRemoteDeviceType",
            () -> nvml.nvmlDeviceGetNvLinkRemoteDeviceType(device, link, type));
    if (result == NvmlLibrary.NVML_SUCCESS
        && type.getValue() == NvmlLibrary.NVML_NVLINK_DEVICE_TYPE_SWITCH) {
      return Optional.of(SWITCH);
    }
    NvmlPciInfo pci = new NvmlPciInfo();
    NvmlPciInfoV2 old = new NvmlPciInfoV2();
    result =
        newest(
            "nvmlDeviceGetNvLinkRemotePciInfo",
            () -> nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci),
            () -> nvml.nvmlDeviceGetNvLinkRemotePciInfo(device, link, old));
    return ifSupported(result, () -> busId(pci, old));
  }

  /** Whether {@link #awaitXid} can ever return something. */
  boolean reportsXids() {
    return events.isPresent();
  }

  Optional<Xid> awaitXid(int timeoutMillis) throws InterruptedException {
    NvmlEventData data = new NvmlEventData();
    int result =
        newest(
            "nvmlEventSetWait",
            () -> nvml.nvmlEventSetWait_v2(events.get(), data, timeoutMillis),
            () -> nvml.nvmlEventSetWait(events.get(), data, timeoutMillis));
    if (result != NvmlLibrary.NVML_SUCCESS && result != NvmlLibrary.NVML_ERROR_TIMEOUT) {
      // A driver that refuses to wait, as it may while a GPU is lost, refuses at once: without a
      // rest it would be asked for ever.
      Thread.sleep(timeoutMillis);
      return Optional.empty();
    }
    if (result != NvmlLibrary.NVML_SUCCESS
        || data.eventType != NvmlLibrary.NVML_EVENT_TYPE_XID_CRITICAL_ERROR) {
      return Optional.empty();
    }
    return Optional.ofNullable(uuids.get(data.device))
        .map(uuid -> new Xid(uuid, (int) data.eventData));
  }

  /**
   * Calls the newest variant of a function that this driver has, and remembers which that was.
   * Variants come newest first; with none left the answer is what NVML itself gives for an unknown
   * function.
   */
  private int newest(String function, IntSupplier... variants) {
    for (int i = firstUsableVariant.getOrDefault(function, 0); i < variants.length; i++) {
      firstUsableVariant.put(function, i);
      try {
        int result = variants[i].getAsInt();
        if (result != NvmlLibrary.NVML_ERROR_FUNCTION_NOT_FOUND) {
          return result;
        }
      } catch (UnsatisfiedLinkError e) {
        // This driver is older than the variant.
      }
      firstUsableVariant.put(function, i + 1);
    }
    return NvmlLibrary.NVML_ERROR_FUNCTION_NOT_FOUND;
  }

  private void require(String function, int result) throws NvmlException {
    if (result != NvmlLibrary.NVML_SUCCESS) {
      throw new NvmlException(function, result, nvml.nvmlErrorString(result));
    }
  }

  /**
   * The value of a query of one GPU: empty if it failed, unless it failed because the GPU is lost.
   */
  private <T> Optional<T> checked(String function, int result, Supplier<T> value)
      throws NvmlException {
    if (result == NvmlLibrary.NVML_ERROR_GPU_IS_LOST
        || result == NvmlLibrary.NVML_ERROR_RESET_REQUIRED) {
      require(function, result);
    }
    return ifSupported(result, value);
  }

  private <T> Optional<T> value(String function, IntSupplier call, Supplier<T> value)
      throws NvmlException {
    return checked(function, newest(function, call), value);
  }

  private interface NumberQuery {
    int into(IntByReference out);
  }

  private OptionalInt number(String function, NumberQuery query) throws NvmlException {
    IntByReference out = new IntByReference();
    Optional<Integer> value = value(function, () -> query.into(out), out::getValue);
    return value.isPresent() ? OptionalInt.of(value.get()) : OptionalInt.empty();
  }

  private interface TextQuery {
    int into(byte[] buffer, int size);
  }

  private static Optional<String> text(TextQuery query) {
    byte[] buffer = new byte[TEXT_BYTES];
    return ifSupported(query.into(buffer, buffer.length), () -> Native.toString(buffer));
  }

  private static <T> Optional<T> ifSupported(int result, Supplier<T> value) {
    return result == NvmlLibrary.NVML_SUCCESS ? Optional.of(value.get()) : Optional.empty();
  }

  private static String busId(NvmlPciInfo pci, NvmlPciInfoV2 old) {
    return busId(Native.toString(pci.busId[0] != 0 ? pci.busId : old.busId));
  }

  /**
   * Old drivers write the PCI domain with 4 digits, new ones with 8: one form, so that they can be
   * compared.
   */
  static String busId(String written) {
    String id = written.toUpperCase(Locale.ROOT);
    return id.indexOf(':') == 4 ? "0000" + id : id;
  }
}
