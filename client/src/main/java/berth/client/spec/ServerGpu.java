package berth.client.spec;

import berth.client.Berth;

/**
 * A GPU of a server.
 *
 * @param server the name of its server
 * @param index the driver's index, which may change when that machine restarts
 * @param uuid the identity
 * @param model empty if the driver does not tell
 * @param memoryBytes all of its memory; 0 if the driver does not tell
 * @param freeMemoryBytes about how much of that is free; 0 if the driver does not tell
 * @param reason why it is not healthy; empty otherwise
 * @param load how busy it is; {@link GpuLoad#UNKNOWN} unless {@link Berth#gpus} asked its server
 */
public record ServerGpu(
    String server,
    int index,
    String uuid,
    String model,
    long memoryBytes,
    long freeMemoryBytes,
    State state,
    String reason,
    GpuLoad load) {

  /** Whether a GPU is free, and if not, why. */
  public enum State {
    /** Nobody holds it or uses it. */
    FREE,
    /** Its server has reserved it for somebody. */
    RESERVED,
    /** Somebody else on that machine holds its lock. */
    LOCKED,
    /** Processes use it that have not reserved it. */
    USED,
    /** It is sick or lost, or its driver does not answer. */
    UNHEALTHY
  }

  /** Whether nobody holds it or uses it. */
  public boolean free() {
    return state == State.FREE;
  }
}
