package berth.e2e.reservations;

/** A way of taking GPUs, under the name by which the referee counts it. */
enum Kind {
  /** {@code Reserve} for a lease, then {@code Release}. */
  LEASE,
  /** {@code Reserve} for as long as a process lives. */
  PROCESS,
  /** {@code berth lock}. */
  LOCK,
  /** Somebody who has never heard of Berth. */
  FASTENERS
}
