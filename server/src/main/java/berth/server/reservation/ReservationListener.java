package berth.server.reservation;

import berth.rpc.BerthException;

/** Told what becomes of one request. Must not block. */
public interface ReservationListener {
  /**
   * So many requests are before this one. Called whenever that changes, and not at all if nobody
   * has to wait.
   */
  void queued(int ahead);

  /** Called once, unless it failed. */
  void granted(Reservation reservation);

  /** Not granted. Nothing follows. */
  void failed(BerthException why);

  /** The reservation is over. Nothing follows. */
  void ended();
}
