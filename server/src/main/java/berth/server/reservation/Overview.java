package berth.server.reservation;

import java.time.Instant;
import java.util.List;
import java.util.OptionalInt;

/**
 * Who holds what and who waits, at one moment.
 *
 * @param gathered the GPUs that the next in line has already, while it waits for more
 */
public record Overview(
    List<Reservation> reservations,
    List<Waiting> waiting,
    List<LockedByOther> lockedByOthers,
    List<UnreservedUse> unreservedUse,
    List<Integer> gathered,
    boolean draining) {

  /** A request in the line. */
  public record Waiting(ReservationRequest request, Instant since) {}

  /** A GPU that somebody else has locked. */
  public record LockedByOther(int index, String uuid, OptionalInt pid, String description) {}

  /** A GPU that is used although nobody has locked it. */
  public record UnreservedUse(int index, String uuid, List<Integer> pids) {}
}
