package berth.server.gpu;

import java.util.Map;
import java.util.Set;

/**
 * A critical error as the driver reports it; "XID" is what NVIDIA and every administrator call it.
 */
record Xid(String uuid, int code) {
  // Faults of the program on the GPU: a bad access, an illegal instruction, a killed channel. The
  // GPU is fine.
  private static final Set<Integer> OF_THE_APPLICATION = Set.of(13, 31, 43, 45, 68, 109);

  private static final Map<Integer, String> MEANINGS =
      Map.ofEntries(
          Map.entry(48, "uncorrectable memory error"),
          Map.entry(62, "internal micro-controller halt"),
          Map.entry(63, "memory row remapping"),
          Map.entry(64, "memory row remapping failed"),
          Map.entry(74, "NVLink error"),
          Map.entry(79, "the GPU has fallen off the bus"),
          Map.entry(92, "many corrected memory errors"),
          Map.entry(94, "contained memory error"),
          Map.entry(95, "uncontained memory error"),
          Map.entry(119, "the GPU's system processor timed out"),
          Map.entry(120, "the GPU's system processor failed"));

  boolean isFaultOfTheApplication() {
    return OF_THE_APPLICATION.contains(code);
  }

  @Override
  public String toString() {
    String meaning = MEANINGS.get(code);
    return "XID " + code + (meaning == null ? "" : ", " + meaning);
  }
}
