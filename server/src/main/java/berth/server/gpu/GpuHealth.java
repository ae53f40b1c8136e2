package berth.server.gpu;

import java.util.Locale;

/**
 * Whether a GPU can be used.
 *
 * @param reason one sentence; empty if and only if healthy
 */
public record GpuHealth(State state, String reason) {
  static final GpuHealth HEALTHY = new GpuHealth(State.HEALTHY, "");

  public GpuHealth {
    if ((state == State.HEALTHY) != reason.isEmpty()) {
      throw new IllegalArgumentException(state + " with reason '" + reason + "'");
    }
  }

  /** The verdict. */
  public enum State {
    HEALTHY,
    /** Answers, but reported a critical error or fails basic queries. */
    SICK,
    /** The driver has lost it. */
    LOST,
    /** The driver does not answer, so nobody knows. */
    UNKNOWN
  }

  public boolean healthy() {
    return state == State.HEALTHY;
  }

  @Override
  public String toString() {
    return healthy() ? "healthy" : state.name().toLowerCase(Locale.ROOT) + ": " + reason;
  }
}
