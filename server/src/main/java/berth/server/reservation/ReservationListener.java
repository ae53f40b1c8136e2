package berth.server.reservation;

import berth.rpc.BerthException;

/** Told what becomes of one request. Must not block. */
public interface ReservationListener {
  /**
   * So many requests are before this one. Called whenever that or the reason changes, and not at
   * all if nobody has to wait.
   *
   * @param because what is wrong with this server, so that nobody gets on, as a sentence for
   *     people; empty if the GPUs are only in use
   */
  void queued(int ahead, String because);

  /** Called once, unless it failed. */
  void granted(Reservation reservation);

  /** Not granted. Nothing follows. */
  void failed(BerthException why);

  /** The reservation is over. Nothing follows. */
  void ended();
}
