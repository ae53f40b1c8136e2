package berth.host.gpu;

import java.util.Optional;

/**
 * How two GPUs are connected.
 *
 * @param indexA the lower index
 * @param nvlinks links between the two, direct or through switches
 */
public record GpuLink(int indexA, int indexB, int nvlinks, Optional<PcieDistance> pcie) {
  public GpuLink {
    if (indexA >= indexB) {
      throw new IllegalArgumentException(indexA + " is not below " + indexB);
    }
  }

  /** Where the PCIe paths of two GPUs meet, nearest first. */
  public enum PcieDistance {
    SAME_BOARD,
    ONE_SWITCH,
    SEVERAL_SWITCHES,
    HOST_BRIDGE,
    NUMA_NODE,
    SYSTEM;

    /** Of NVML's topology levels 0, 10, 20, 30, 40 and 50; empty for any other. */
    static Optional<PcieDistance> ofNvmlLevel(int level) {
      boolean known = level >= 0 && level % 10 == 0 && level / 10 < values().length;
      return known ? Optional.of(values()[level / 10]) : Optional.empty();
    }
  }
}
