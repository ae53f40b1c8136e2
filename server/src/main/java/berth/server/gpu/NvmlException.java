package berth.server.gpu;

/** A failed call of NVML, with NVML's own words for it. */
final class NvmlException extends Exception {
  private static final long serialVersionUID = 1L;

  private final int code;

  NvmlException(String function, int code, String meaning) {
    super(function + ": " + meaning + " (NVML error " + code + ")");
    this.code = code;
  }

  boolean meansLost() {
    return code == NvmlLibrary.NVML_ERROR_GPU_IS_LOST
        || code == NvmlLibrary.NVML_ERROR_RESET_REQUIRED;
  }
}
