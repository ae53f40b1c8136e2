package berth.server.gpu;

/**
 * What a GPU needs to recover from an error, from the least to the most that has to be done. The
 * numbers are those of NVML's {@code nvmlDeviceGpuRecoveryAction_t}.
 */
public enum RecoveryAction {
  NONE("nothing"),
  /** Nobody here knows what, so somebody has to look. */
  INSPECT("a look at it"),
  DRAIN_P2P("an end of all peer-to-peer traffic with it"),
  DRAIN_AND_RESET("a GPU reset when its work is done"),
  GPU_RESET("a GPU reset"),
  /** Heals all that the others heal, too. */
  NODE_REBOOT("a reboot of the machine");

  private final String need;

  RecoveryAction(String need) {
    this.need = need;
  }

  static RecoveryAction ofNvml(long number) {
    return switch ((int) number) {
      case 0 -> NONE;
      case 1 -> GPU_RESET;
      // 7 is "reboot the system", of drivers that tell the node from the system.
      case 2, 7 -> NODE_REBOOT;
      case 3 -> DRAIN_P2P;
      case 4 -> DRAIN_AND_RESET;
      // 5 and 6 (recover the IMEX domain, reset the PCIe bus) and what is yet to come.
      default -> INSPECT;
    };
  }

  RecoveryAction orWorse(RecoveryAction other) {
    return compareTo(other) >= 0 ? this : other;
  }

  /** What it is, as the end of "the driver asks for". */
  String need() {
    return need;
  }

  /**
   * What an administrator has to do; empty for {@link #NONE}.
   *
   * @param driverTells whether the driver will say when it is done; else the administrator must
   */
  String advice(int index, boolean driverTells) {
    String heal = driverTells ? "" : ", then berth server heal " + index;
    String reset = "nvidia-smi --gpu-reset -i " + index + heal;
    return switch (this) {
      case NONE -> "";
      case INSPECT -> "see dmesg and nvidia-smi -q -i " + index + heal;
      case DRAIN_P2P -> "end the programs that use it together with other GPUs" + heal;
      case DRAIN_AND_RESET -> "let its work finish, then " + reset;
      case GPU_RESET -> reset;
      case NODE_REBOOT -> "reboot";
    };
  }
}
