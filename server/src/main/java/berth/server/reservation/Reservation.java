package berth.server.reservation;

import berth.host.lock.LockedGpu;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * GPUs and ports that are held for somebody.
 *
 * @param gpus by ascending index
 * @param ports ascending
 * @param expires when it ends if nobody prolongs it; empty if it lives by something else
 * @param process the process it lives by
 * @param runIds the runs that use it, oldest first; it is not free before they have ended
 * @param heldBack why it is still there although it has ended; usually empty
 * @param renewed whether its holder prolongs it for as long as it needs it, see {@link
 *     Lifetime#isRenewed}
 */
public record Reservation(
    String id,
    List<LockedGpu> gpus,
    List<Integer> ports,
    Owner owner,
    String purpose,
    Instant granted,
    Optional<Expiry> expires,
    OptionalInt process,
    List<String> runIds,
    String heldBack,
    boolean renewed) {

  /** Whom it belongs to. */
  public record Owner(String user, String host) {
    @Override
    public String toString() {
      return user + "@" + host;
    }
  }

  /**
   * The end on both clocks.
   *
   * @param wall for people
   * @param nanos what counts, on the machine's monotonic clock
   */
  public record Expiry(Instant wall, long nanos) {}

  public Reservation {
    gpus = List.copyOf(gpus);
    ports = List.copyOf(ports);
    runIds = List.copyOf(runIds);
  }

  Reservation expiring(Expiry expiry) {
    return with(Optional.of(expiry), runIds, heldBack);
  }

  Reservation usedBy(Collection<String> runs) {
    return with(expires, List.copyOf(runs), heldBack);
  }

  Reservation heldBack(String why) {
    return with(expires, runIds, why);
  }

  private Reservation with(Optional<Expiry> end, List<String> runs, String why) {
    return new Reservation(
        id, gpus, ports, owner, purpose, granted, end, process, runs, why, renewed);
  }
}
