package berth.server.reservation;

import berth.host.lock.GpuWish;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.Optional;

/**
 * What somebody wants to reserve.
 *
 * @param gpus none for ports alone
 * @param waitAtMost zero: not at all; empty: for ever
 * @param requestId the same for a retry; empty for none
 */
public record ReservationRequest(
    Optional<GpuWish> gpus,
    int ports,
    Optional<Duration> waitAtMost,
    Lifetime lifetime,
    Reservation.Owner owner,
    String purpose,
    String requestId) {
  private static final int LONGEST_PURPOSE = 200;
  private static final int LONGEST_REQUEST_ID = 100;
  private static final int LONGEST_OWNER = 200;

  public ReservationRequest {
    if (gpus.isEmpty() && ports == 0) {
      throw invalid("neither GPUs nor ports requested");
    }
    if (ports < 0) {
      throw invalid(ports + " ports asked; ask for 0 or more");
    }
    if (waitAtMost.map(Duration::isNegative).orElse(false)) {
      throw invalid("the wait must not be negative");
    }
    if (owner.toString().length() > LONGEST_OWNER) {
      throw invalid("the owner has more than " + LONGEST_OWNER + " characters");
    }
    if (purpose.length() > LONGEST_PURPOSE) {
      throw invalid(
          "the purpose has "
              + purpose.length()
              + " characters, "
              + LONGEST_PURPOSE
              + " are allowed");
    }
    if (requestId.length() > LONGEST_REQUEST_ID) {
      throw invalid(
          "the request id has "
              + requestId.length()
              + " characters, "
              + LONGEST_REQUEST_ID
              + " are allowed");
    }
  }

  boolean waits() {
    return waitAtMost.isEmpty() || !waitAtMost.get().isZero();
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
