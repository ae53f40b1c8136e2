package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import io.grpc.Metadata;
import io.grpc.Status;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.UnknownHostException;

/** Failures after which nobody knows whether the server has taken the request all the same. */
final class InDoubt {
  // Servers mark with it what they say themselves; what a broken connection says has none.
  private static final Metadata.Key<String> SAID =
      Metadata.Key.of("berth-reason", Metadata.ASCII_STRING_MARSHALLER);

  private InDoubt() {}

  /** Whether the connection failed, and not the server that was asked over it. */
  static boolean connectionFailed(BerthException failure) {
    if (failure.reason() != Reason.UNAVAILABLE || failure.getCause() == null) {
      return false;
    }
    Metadata trailers = Status.trailersFromThrowable(failure.getCause());
    return trailers == null || !trailers.containsKey(SAID);
  }

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
