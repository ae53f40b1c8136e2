package berth.server.reservation;

import berth.rpc.BerthException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Passes on what a listener is told, and keeps what it throws from those who tell it. */
final class ProtectedListener implements ReservationListener {
  private static final Logger log = LoggerFactory.getLogger(ProtectedListener.class);

  private final ReservationListener listener;

  ProtectedListener(ReservationListener listener) {
    this.listener = listener;
  }

  @Override
  public void queued(int ahead, String because) {
    tell(() -> listener.queued(ahead, because));
  }

  @Override
  public void granted(Reservation reservation) {
    tell(() -> listener.granted(reservation));
  }

  @Override
  public void failed(BerthException why) {
    tell(() -> listener.failed(why));
  }

  @Override
  public void ended() {
    tell(listener::ended);
  }

  private static void tell(Runnable news) {
    try {
      news.run();
    } catch (RuntimeException | Error e) {
      log.error("a listener of a reservation failed", e);
    }
  }
}
