package berth.server.reservation;

import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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

  /** What a GPU is used for. */
  public enum Use {
    FREE,
    /** By a reservation of this server, or by one that gathers its GPUs. */
    RESERVED,
    /** By the lock of somebody else. */
    LOCKED,
    /** By processes that have not reserved it. */
    USED
  }

  /**
   * A request in the line.
   *
   * @param since for people
   * @param sinceNanos for measuring, on a clock that never jumps
   * @param because what is wrong with this server; empty if the GPUs are only in use
   */
  public record Waiting(
      ReservationRequest request, Instant since, long sinceNanos, String because) {}

  /** A GPU that somebody else has locked. */
  public record LockedByOther(int index, String uuid, OptionalInt pid, String description) {}

  /** A GPU that is used although nobody has locked it. */
  public record UnreservedUse(int index, String uuid, List<Integer> pids) {}

  /** The GPUs that are not free, by index. */
  public Map<Integer, Use> uses() {
    Map<Integer, Use> uses = new HashMap<>();
    unreservedUse.forEach(use -> uses.put(use.index(), Use.USED));
    lockedByOthers.forEach(lock -> uses.put(lock.index(), Use.LOCKED));
    gathered.forEach(index -> uses.put(index, Use.RESERVED));
    reservations.forEach(held -> held.gpus().forEach(gpu -> uses.put(gpu.index(), Use.RESERVED)));
    return uses;
  }
}
