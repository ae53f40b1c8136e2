package berth.host.gpu;

import static berth.host.gpu.RecoveryAction.GPU_RESET;
import static berth.host.gpu.RecoveryAction.INSPECT;
import static berth.host.gpu.RecoveryAction.NODE_REBOOT;
import static berth.host.gpu.RecoveryAction.NONE;

import java.util.HashMap;
import java.util.Map;

/**
 * What each critical error (XID) asks for, by NVIDIA's catalogue ("Analyzing Xid Errors with the
 * Xid Catalog", docs.nvidia.com/deploy/xid-errors). It decides only where the driver does not: one
 * that has the recovery action (R565 and later) knows the subcodes and the GPU's architecture, both
 * of which this table lacks. Where the catalogue leaves a choice, the GPU gets no new work until
 * somebody has decided; what runs on it goes on in any case.
 */
final class XidCatalogue {
  /** Announces that the driver's recovery action has changed; no error of its own. */
  static final int RECOVERY_ACTION_CHANGED = 154;

  /**
   * @param ofTheApplication the fault of a program; says nothing about the GPU
   * @param meaning in words that go on after the number; empty if unknown
   * @param why what the catalogue says that leads to the action
   */
  record Entry(RecoveryAction action, boolean ofTheApplication, String meaning, String why) {}

  // A code that is in no catalogue is critical all the same, and nobody says that the GPU is well.
  private static final Entry UNKNOWN =
      new Entry(INSPECT, false, "", "not in the catalogue that this version knows");

  private static final Map<Integer, Entry> ENTRIES = new HashMap<>();

  static {
    ofTheApplication(13, "exception of a program, such as an access out of bounds");
    ofTheApplication(31, "memory page fault of a program");
    ofTheApplication(43, "a program was stopped after a fault of its own");
    ofTheApplication(45, "a program was ended");
    ofTheApplication(68, "exception of the video decoder");
    // The catalogue resets on it, but a program that never yields is enough to cause it; a driver
    // that wants a reset says so itself.
    ofTheApplication(109, "context switch timeout");

    String reset = "the catalogue's immediate action is RESET_GPU";
    add(46, GPU_RESET, "the GPU stopped processing", reset);
    add(48, GPU_RESET, "uncorrectable memory error", "a GPU reset or node reboot clears it");
    add(62, GPU_RESET, "internal micro-controller halt", reset);
    add(
        63,
        GPU_RESET,
        "memory row remapping",
        "the bad row or page is replaced with the next reset; work may go on until then");
    add(64, GPU_RESET, "memory row remapping failed", reset);
    add(74, GPU_RESET, "NVLink error", "a GPU reset or node reboot clears it");
    add(
        79,
        NODE_REBOOT,
        "the GPU has fallen off the bus",
        "the catalogue's immediate action is RESTART_BM: no reset reaches it");
    add(
        94,
        GPU_RESET,
        "contained memory error",
        "reset when convenient; programs that it did not hit may go on until then");
    add(95, GPU_RESET, "uncontained memory error", "reset before programs are started again");
    add(110, GPU_RESET, "security fault", reset);
    add(119, GPU_RESET, "the GPU's system processor timed out", reset);
    add(120, GPU_RESET, "the GPU's system processor failed", reset);
    add(136, GPU_RESET, "NVLink training failed", reset);
    add(140, GPU_RESET, "memory error that could not be recovered", reset);
    add(143, GPU_RESET, "initialization error", reset);
    // Some subcodes of these are harmless, and only the driver sees the subcode.
    for (int nvlink = 144; nvlink <= 150; nvlink++) {
      add(nvlink, GPU_RESET, "NVLink error", "reset for every subcode that is fatal");
    }
    add(151, NODE_REBOOT, "key rotation error", "the catalogue's immediate action is RESTART_VM");
    add(155, GPU_RESET, "NVLink error", reset);
    add(156, GPU_RESET, "resource retirement", reset);
    add(158, GPU_RESET, "fatal timeout", reset);
    add(171, GPU_RESET, "uncorrectable DRAM error", "comes with 48");
    add(172, GPU_RESET, "uncorrectable SRAM error", "comes with 48");

    add(92, NONE, "many corrected memory errors", "the catalogue's immediate action is IGNORE");
    add(93, NONE, "InfoROM wear limit", "the catalogue's immediate action is IGNORE");
    add(121, NONE, "corrected error of the link to the CPU", "no operational impact");
    add(157, NONE, "resource retirement failed", "work may go on");
    nothing("IGNORE", 14, 14, 37, 38, 44, 44, 66, 67, 106, 108, 137, 137, 141, 141, 152, 153);
    nothing("IGNORE", RECOVERY_ACTION_CHANGED, RECOVERY_ACTION_CHANGED, 160, 165);
    nothing("RESTART_APP", 8, 8, 25, 25, 32, 32, 39, 41, 60, 60, 69, 72, 75, 77, 80, 80, 82, 86);
    nothing("RESTART_APP", 88, 89, 96, 105, 126, 135, 139, 139);
  }

  private XidCatalogue() {}

  static Entry of(int code) {
    return ENTRIES.getOrDefault(code, UNKNOWN);
  }

  private static void ofTheApplication(int code, String meaning) {
    ENTRIES.put(code, new Entry(NONE, true, meaning, "a fault of the program, not of the GPU"));
  }

  private static void add(int code, RecoveryAction action, String meaning, String why) {
    ENTRIES.put(code, new Entry(action, false, meaning, why));
  }

  /** Pairs of first and last code of which the catalogue says that the GPU needs nothing. */
  private static void nothing(String bucket, int... ranges) {
    for (int i = 0; i < ranges.length; i += 2) {
      for (int code = ranges[i]; code <= ranges[i + 1]; code++) {
        add(code, NONE, "", "the catalogue's immediate action is " + bucket);
      }
    }
  }
}
