package berth.server.reservation;

import berth.host.lock.LockedGpu;
import java.util.List;

/**
 * A run's part in a reservation. Until it is released, nobody else gets the GPUs and ports: not
 * when the reservation's own time is over, and not when this process is killed. Any thread may
 * call.
 *
 * <p>Before the run starts say {@link #usedBy}, and {@link #livesBy} as soon as its process is
 * known. Somebody who is killed in between leaves the rest to the keeper, which looks for the mark.
 */
public final class RunHold {
  private final Reservations reservations;
  private final Reservation reservation;
  private final String runId;

  RunHold(Reservations reservations, Reservation reservation, String runId) {
    this.reservations = reservations;
    this.reservation = reservation;
    this.runId = runId;
  }

  /** As it was when it was granted or found. */
  public Reservation reservation() {
    return reservation;
  }

  public List<LockedGpu> gpus() {
    return reservation.gpus();
  }

  /** From now on somebody may use the GPUs whose command contains {@code mark}, a single word. */
  public void usedBy(String mark) {
    reservations.withHold(reservation.id(), held -> held.mark(runId, mark));
  }

  /** The run is this process, with all that ends with it. */
  public void livesBy(int pid) {
    reservations.withHold(reservation.id(), held -> held.livesBy(runId, pid));
  }

  /** Says why the GPUs are not free although the run is over. Empty: no longer. */
  public void holdBack(String why) {
    reservations.withHold(reservation.id(), held -> held.holdBack(why));
  }

  /** The run no longer uses them. Frees them, unless the reservation goes on for something else. */
  public void release() {
    reservations.unhold(reservation.id(), runId);
  }
}
