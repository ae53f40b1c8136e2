package berth.host.gpu;

import java.util.Locale;
import java.util.Optional;

/**
 * Whether a GPU can be used.
 *
 * @param reason one sentence; empty if and only if healthy
 * @param action what the GPU needs; empty if the driver does not tell and nothing is known. Of a
 *     {@link GpuSource} this is the driver's word, which {@link GpuMonitor} has yet to judge; later
 *     a GPU that needs something is healthy only if the administrator said so
 * @param advice what to do for that; empty if nothing
 */
public record GpuHealth(
    State state, String reason, Optional<RecoveryAction> action, String advice) {
  public static final GpuHealth HEALTHY = new GpuHealth(State.HEALTHY, "");

  public GpuHealth {
    if ((state == State.HEALTHY) != reason.isEmpty()) {
      throw new IllegalArgumentException(state + " with reason '" + reason + "'");
    }
  }

  public GpuHealth(State state, String reason) {
    this(state, reason, Optional.empty(), "");
  }

  /** Of a GPU that answers, with the driver's word. */
  static GpuHealth answering(Optional<RecoveryAction> word) {
    return new GpuHealth(State.HEALTHY, "", word, "");
  }

  /** The verdict. */
  public enum State {
    HEALTHY,
    /** Answers, but needs a {@link RecoveryAction} or fails basic queries. */
    SICK,
    /** The driver has lost it. */
    LOST,
    /** The driver does not answer, so nobody knows. */
    UNKNOWN
  }

  GpuHealth needing(RecoveryAction needed, String whatToDo) {
    return new GpuHealth(state, reason, Optional.of(needed), whatToDo);
  }

  /** What nobody knows any more; what the GPU needs it still needs. */
  GpuHealth unknown(String why) {
    return new GpuHealth(State.UNKNOWN, why, action, advice);
  }

  public boolean healthy() {
    return state == State.HEALTHY;
  }

  @Override
  public String toString() {
    if (healthy()) {
      return advice.isEmpty()
          ? "healthy"
          : "healthy as declared by the administrator; still needed: " + advice;
    }
    return state.name().toLowerCase(Locale.ROOT)
        + ": "
        + reason
        + (advice.isEmpty() ? "" : "; to bring it back: " + advice);
  }
}
