package berth.host.gpu;

import java.util.Optional;

/** A failed call of NVML, with NVML's own words for it. */
final class NvmlException extends Exception {
  private static final long serialVersionUID = 1L;

  private final int code;

  NvmlException(String function, int code, String meaning) {
    super(function + ": " + meaning + " (NVML error " + code + ")");
    this.code = code;
  }

  private boolean meansLost() {
    return code == NvmlLibrary.NVML_ERROR_GPU_IS_LOST
        || code == NvmlLibrary.NVML_ERROR_RESET_REQUIRED;
  }

  /** How the GPU is that answered so. */
  GpuHealth health() {
    GpuHealth.State state = meansLost() ? GpuHealth.State.LOST : GpuHealth.State.SICK;
    Optional<RecoveryAction> action =
        code == NvmlLibrary.NVML_ERROR_RESET_REQUIRED
            ? Optional.of(RecoveryAction.GPU_RESET)
            : Optional.empty();
    return new GpuHealth(state, getMessage(), action, "");
  }
}
