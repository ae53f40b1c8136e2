package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.UnknownHostException;

/** Failures after which nobody knows whether the server has taken the request all the same. */
final class InDoubt {
  private InDoubt() {}

  /** Whether there was no connection, so that the server cannot have heard anything. */
  static boolean wasNotReached(BerthException failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof ConnectException
          || cause instanceof NoRouteToHostException
          || cause instanceof UnknownHostException) {
        return true;
      }
    }
    return false;
  }

  /**
   * What to end with in place of {@code failure}.
   *
   * @param doubt what may be, and which command tells
   */
  static BerthException because(BerthException failure, String doubt) {
    return new BerthException(Reason.CONFLICT, failure.getMessage() + "; " + doubt, failure);
  }
}
