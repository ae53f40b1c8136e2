package berth.host.gpu;

import java.util.OptionalInt;

/**
 * Why a GPU that answers is out of service, and what it needs.
 *
 * @param index where the GPU was last seen; holds for one boot of the machine at most
 * @param reason one sentence
 * @param driverTells whether the driver asked for the action and so will say when it is done
 * @param overridden the administrator has put the GPU back into service in spite of it
 */
record Outage(
    OptionalInt index,
    RecoveryAction action,
    String reason,
    boolean driverTells,
    boolean overridden) {
  Outage {
    if (action == RecoveryAction.NONE || reason.isEmpty()) {
      throw new IllegalArgumentException("out of service for " + action + ", '" + reason + "'");
    }
  }

  Outage at(int newIndex) {
    return new Outage(OptionalInt.of(newIndex), action, reason, driverTells, overridden);
  }

  Outage overridden(boolean now) {
    return new Outage(index, action, reason, driverTells, now);
  }

  /** The same of a driver that no longer has a word for what the GPU needs. */
  Outage untold() {
    return new Outage(index, action, reason, false, overridden);
  }
}
