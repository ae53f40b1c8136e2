package berth.server.gpu;

/**
 * Why a GPU that answers is out of service, and what it needs.
 *
 * @param reason one sentence
 * @param driverTells whether the driver asked for the action and so will say when it is done
 * @param overridden the administrator has put the GPU back into service in spite of it
 */
record Outage(RecoveryAction action, String reason, boolean driverTells, boolean overridden) {
  Outage {
    if (action == RecoveryAction.NONE || reason.isEmpty()) {
      throw new IllegalArgumentException("out of service for " + action + ", '" + reason + "'");
    }
  }

  Outage override() {
    return new Outage(action, reason, driverTells, true);
  }
}
