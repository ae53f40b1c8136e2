package berth.host.gpu;

/**
 * What a GPU needs to recover from an error, from the least to the most that has to be done; NVML's
 * {@code nvmlDeviceGpuRecoveryAction_t} has another order, see {@link #ofNvml}.
 */
public enum RecoveryAction {
  NONE("nothing"),
  /** Nobody here knows what, so somebody has to look. */
  INSPECT("an inspection"),
  DRAIN_P2P("a drain of peer-to-peer traffic"),
  DRAIN_AND_RESET("a GPU reset when its work is done"),
  GPU_RESET("a GPU reset"),
  /** Heals all that the others heal, too. */
  NODE_REBOOT("a reboot of the machine");

  private final String need;

  RecoveryAction(String need) {
    this.need = need;
  }

  static RecoveryAction ofNvml(long number) {
    // Not a plain cast: that would read 2^32 as 0.
    return switch ((int) Math.max(-1, Math.min(number, Integer.MAX_VALUE))) {
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
    // It refuses while anybody has the GPU open, and berthd does through NVML.
    String reset =
        "stop berthd, nvidia-smi --gpu-reset -i "
            + index
            + ", start berthd"
            + (driverTells ? "" : ", berth server heal " + index);
    return switch (this) {
      case NONE -> "";
      case INSPECT -> "see dmesg and nvidia-smi -q -i " + index + heal;
      case DRAIN_P2P -> "end the programs that use it together with other GPUs" + heal;
      case DRAIN_AND_RESET -> "let its work finish, " + reset;
      case GPU_RESET -> reset;
      case NODE_REBOOT -> "reboot";
    };
  }
}
