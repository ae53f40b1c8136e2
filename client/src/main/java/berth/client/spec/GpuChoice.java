package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.List;

/**
 * Which GPUs of one server are asked for: so many, or exactly given ones.
 *
 * @param count how many; {@link #ALL}: all of one server; 0 if given ones are asked for, or none
 * @param exactly the UUIDs of given GPUs, or their indices as decimal numbers; empty: any
 * @param model part of the name that each must have; empty: any
 * @param minFreeMemoryBytes free memory that each must have
 */
public record GpuChoice(int count, List<String> exactly, String model, long minFreeMemoryBytes) {
  /** In place of a number: all healthy GPUs of one server. */
  public static final int ALL = -1;

  /** No GPUs. */
  public static final GpuChoice NONE = new GpuChoice(0, List.of(), "", 0);

  /**
   * @throws BerthException INVALID if it contradicts itself
   */
  public GpuChoice {
    exactly = List.copyOf(exactly);
    check(count >= ALL, "number of GPUs must not be negative: " + count);
    check(
        count == 0 || exactly.isEmpty(),
        "both a number of GPUs (" + count + ") and exact GPUs " + exactly + " are asked for");
    check(
        exactly.stream().distinct().count() == exactly.size(),
        "GPU given twice: " + String.join(", ", exactly));
    check(exactly.stream().noneMatch(String::isBlank), "a GPU without UUID and index is asked for");
    check(minFreeMemoryBytes >= 0, "GPU memory must not be negative: " + minFreeMemoryBytes);
    check(
        count != 0 || !exactly.isEmpty() || model.isEmpty() && minFreeMemoryBytes == 0,
        "a GPU model or memory requires a number of GPUs");
  }

  /** Whether no GPU is asked for. */
  public boolean isNone() {
    return count == 0 && exactly.isEmpty();
  }

  /** Whether GPUs are named by their indices, which mean something on a given server only. */
  public boolean hasIndices() {
    return exactly.stream().anyMatch(id -> id.chars().allMatch(Character::isDigit));
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }
}
