package berth.host.gpu;

import com.sun.jna.Library;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.Structure.FieldOrder;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;

/**
 * The part of nvml.h that we call, under its C names. Holds no logic; see {@link NvmlGpus}. A
 * function that the driver does not have throws {@link UnsatisfiedLinkError}. nvml.h hides the
 * version suffixes behind macros; here they are the real symbols.
 */
public interface NvmlLibrary extends Library {
  int NVML_SUCCESS = 0;
  int NVML_ERROR_NOT_SUPPORTED = 3;
  int NVML_ERROR_INSUFFICIENT_SIZE = 7;
  int NVML_ERROR_TIMEOUT = 10;
  int NVML_ERROR_FUNCTION_NOT_FOUND = 13;
  int NVML_ERROR_GPU_IS_LOST = 15;
  int NVML_ERROR_RESET_REQUIRED = 16;

  int NVML_TEMPERATURE_GPU = 0;
  int NVML_MEMORY_ERROR_TYPE_CORRECTED = 0;
  int NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1;
  int NVML_VOLATILE_ECC = 0;
  int NVML_NVLINK_DEVICE_TYPE_SWITCH = 2;
  int NVML_NVLINK_MAX_LINKS = 18;
  long NVML_EVENT_TYPE_XID_CRITICAL_ERROR = 8;
  long NVML_VALUE_NOT_AVAILABLE = -1;
  int NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230;
  int NVML_VALUE_TYPE_DOUBLE = 0;
  int NVML_VALUE_TYPE_UNSIGNED_INT = 1;
  int NVML_VALUE_TYPE_SIGNED_INT = 5;

  int nvmlInit_v2();

  int nvmlInit();

  int nvmlShutdown();

  String nvmlErrorString(int result);

  int nvmlSystemGetDriverVersion(byte[] version, int length);

  int nvmlSystemGetCudaDriverVersion_v2(IntByReference version);

  int nvmlSystemGetCudaDriverVersion(IntByReference version);

  int nvmlDeviceGetCount_v2(IntByReference count);

  int nvmlDeviceGetCount(IntByReference count);

  int nvmlDeviceGetHandleByIndex_v2(int index, PointerByReference device);

  int nvmlDeviceGetHandleByIndex(int index, PointerByReference device);

  int nvmlDeviceGetUUID(Pointer device, byte[] uuid, int length);

  int nvmlDeviceGetName(Pointer device, byte[] name, int length);

  int nvmlDeviceGetPciInfo_v3(Pointer device, NvmlPciInfo pci);

  int nvmlDeviceGetPciInfo_v2(Pointer device, NvmlPciInfoV2 pci);

  int nvmlDeviceGetPciInfo(Pointer device, NvmlPciInfoV2 pci);

  int nvmlDeviceGetMemoryInfo_v2(Pointer device, NvmlMemoryV2 memory);

  int nvmlDeviceGetMemoryInfo(Pointer device, NvmlMemory memory);

  int nvmlDeviceGetUtilizationRates(Pointer device, NvmlUtilization utilization);

  int nvmlDeviceGetTemperature(Pointer device, int sensor, IntByReference celsius);

  int nvmlDeviceGetPowerUsage(Pointer device, IntByReference milliwatts);

  int nvmlDeviceGetEnforcedPowerLimit(Pointer device, IntByReference milliwatts);

  int nvmlDeviceGetTotalEccErrors(
      Pointer device, int errorType, int counterType, LongByReference count);

  int nvmlDeviceGetMigMode(Pointer device, IntByReference current, IntByReference pending);

  int nvmlDeviceGetComputeRunningProcesses_v3(
      Pointer device, IntByReference count, NvmlProcessInfo[] infos);

  int nvmlDeviceGetComputeRunningProcesses_v2(
      Pointer device, IntByReference count, NvmlProcessInfo[] infos);

  int nvmlDeviceGetComputeRunningProcesses(
      Pointer device, IntByReference count, NvmlProcessInfoV1[] infos);

  int nvmlDeviceGetTopologyCommonAncestor(Pointer device1, Pointer device2, IntByReference level);

  int nvmlDeviceGetNvLinkState(Pointer device, int link, IntByReference active);

  int nvmlDeviceGetNvLinkRemoteDeviceType(Pointer device, int link, IntByReference type);

  int nvmlDeviceGetNvLinkRemotePciInfo_v2(Pointer device, int link, NvmlPciInfo pci);

  int nvmlDeviceGetNvLinkRemotePciInfo(Pointer device, int link, NvmlPciInfoV2 pci);

  int nvmlDeviceGetFieldValues(Pointer device, int count, NvmlFieldValue values);

  int nvmlEventSetCreate(PointerByReference set);

  int nvmlEventSetFree(Pointer set);

  int nvmlDeviceGetSupportedEventTypes(Pointer device, LongByReference types);

  int nvmlDeviceRegisterEvents(Pointer device, long types, Pointer set);

  int nvmlEventSetWait_v2(Pointer set, NvmlEventData data, int timeoutMillis);

  int nvmlEventSetWait(Pointer set, NvmlEventData data, int timeoutMillis);

  /** Mirrors nvmlPciInfo_t. */
  @FieldOrder({"busIdLegacy", "domain", "bus", "device", "pciDeviceId", "pciSubSystemId", "busId"})
  final class NvmlPciInfo extends Structure {
    public byte[] busIdLegacy = new byte[16];
    public int domain, bus, device, pciDeviceId, pciSubSystemId;
    public byte[] busId = new byte[32];
  }

  /** Mirrors nvmlPciInfo_t as it was up to version 2, with a shorter bus id in front. */
  @FieldOrder({"busId", "domain", "bus", "device", "pciDeviceId", "pciSubSystemId", "reserved"})
  final class NvmlPciInfoV2 extends Structure {
    public byte[] busId = new byte[16];
    public int domain, bus, device, pciDeviceId, pciSubSystemId;
    public int[] reserved = new int[4];
  }

  /** Mirrors nvmlMemory_t. Bytes. */
  @FieldOrder({"total", "free", "used"})
  final class NvmlMemory extends Structure {
    public long total, free, used;
  }

  /**
   * Mirrors nvmlMemory_v2_t. Bytes. The driver wants its own size and version in the first field.
   */
  @FieldOrder({"version", "total", "reserved", "free", "used"})
  final class NvmlMemoryV2 extends Structure {
    public int version = 40 | 2 << 24;
    public long total, reserved, free, used;
  }

  /** Mirrors nvmlUtilization_t. Percent. */
  @FieldOrder({"gpu", "memory"})
  final class NvmlUtilization extends Structure {
    public int gpu, memory;
  }

  /** Mirrors nvmlProcessInfo_v1_t. */
  @FieldOrder({"pid", "usedGpuMemory"})
  final class NvmlProcessInfoV1 extends Structure {
    public int pid;
    public long usedGpuMemory;
  }

  /** Mirrors nvmlProcessInfo_t, versions 2 and 3. */
  @FieldOrder({"pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId"})
  final class NvmlProcessInfo extends Structure {
    public int pid;
    public long usedGpuMemory;
    public int gpuInstanceId, computeInstanceId;
  }

  /** Mirrors nvmlEventData_t; older drivers fill only the first three fields. */
  @FieldOrder({"device", "eventType", "eventData", "gpuInstanceId", "computeInstanceId"})
  final class NvmlEventData extends Structure {
    public Pointer device;
    public long eventType, eventData;
    public int gpuInstanceId, computeInstanceId;
  }

  /** Mirrors nvmlFieldValue_t; the union at its end is a long here, whatever the type. */
  @FieldOrder({
    "fieldId",
    "scopeId",
    "timestamp",
    "latencyUsec",
    "valueType",
    "nvmlReturn",
    "value"
  })
  final class NvmlFieldValue extends Structure {
    public int fieldId, scopeId;
    public long timestamp, latencyUsec;
    public int valueType, nvmlReturn;
    public long value;
  }
}
