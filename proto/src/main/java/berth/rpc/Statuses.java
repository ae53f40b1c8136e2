package berth.rpc;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Translates between {@link BerthException} and gRPC's status, in both directions. Any thread may
 * call.
 */
public final class Statuses {
  private static final Logger log = LoggerFactory.getLogger(Statuses.class);

  // A trailer that only Berth's own failures have: gRPC ends calls with the same codes.
  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("berth-reason", Metadata.ASCII_STRING_MARSHALLER);

  // A status travels in HTTP headers, and too long headers would replace it by an INTERNAL.
  private static final int MAX_MESSAGE_CHARS = 2000;

  private Statuses() {}

  /**
   * What to end a call with when {@code failure} ended its work. What nobody expected is logged
   * whole and answered as a bare INTERNAL, so that no caller learns of the server's insides.
   */
  public static StatusRuntimeException toException(Throwable failure) {
    Metadata trailers = new Metadata();
    if (failure instanceof BerthException expected) {
      trailers.put(REASON, expected.reason().name());
    }
    return toStatus(failure).asRuntimeException(trailers);
  }

  private static Status toStatus(Throwable failure) {
    if (failure instanceof BerthException expected) {
      if (expected.reason() == Reason.INTERNAL) {
        log.error("a call failed", expected);
      }
      return Status.fromCode(code(expected.reason())).withDescription(cut(expected.getMessage()));
    }
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
      return Status.UNAVAILABLE.withDescription("this server is stopping");
    }
    if (failure instanceof CancellationException) {
      return Status.CANCELLED;
    }
    log.error("a call failed unexpectedly", failure);
    return Status.INTERNAL;
  }

  /**
   * The mirror of {@link #toException} on the caller's side.
   *
   * @param peer who was called, for the message, such as {@code berthd at gpu01:18812}
   */
  public static BerthException fromStatus(Throwable failure, String peer) {
    Status status;
    if (failure instanceof StatusRuntimeException e) {
      status = e.getStatus();
    } else if (failure instanceof StatusException e) {
      status = e.getStatus();
    } else if (failure instanceof BerthException e) {
      return e;
    } else {
      throw new IllegalArgumentException("not the failure of a call", failure);
    }
    Reason reason = reset(status) ? Reason.UNAVAILABLE : reason(status.getCode());
    Metadata trailers = Status.trailersFromThrowable(failure);
    boolean said = trailers != null && trailers.containsKey(REASON);
    return new BerthException(
        reason,
        said
            ? Objects.requireNonNullElse(status.getDescription(), "")
            : message(reason, status, peer),
        failure);
  }

  /** Whether the connection failed, and not the server that was asked over it. */
  public static boolean connectionFailed(BerthException failure) {
    if (failure.reason() != Reason.UNAVAILABLE || failure.getCause() == null) {
      return false;
    }
    Metadata trailers = Status.trailersFromThrowable(failure.getCause());
    return trailers == null || !trailers.containsKey(REASON);
  }

  // A server that ends a connection cancels the calls on it, for example because it has heard
  // nothing
  // for too long; a caller who was cut off for a while may hear that when he is back. He did not
  // cancel anything himself.
  private static boolean reset(Status status) {
    return status.getCode() == Status.Code.CANCELLED
        && status.getDescription() != null
        && status.getDescription().startsWith("RST_STREAM");
  }

  private static String cut(String message) {
    return message.length() <= MAX_MESSAGE_CHARS
        ? message
        : message.substring(0, MAX_MESSAGE_CHARS - 1) + "…";
  }

  private static String message(Reason reason, Status status, String peer) {
    String description = status.getDescription();
    if (reset(status)) {
      return peer + " ended the connection";
    }
    if (status.getCause() != null && reason == Reason.UNAVAILABLE) {
      // The transport's own failure: its description is "io exception", the cause has the
      // substance.
      return "no " + peer + ": " + rootMessage(status.getCause());
    }
    return switch (reason) {
      case TIMED_OUT -> peer + " did not answer in time";
      case UNSUPPORTED -> peer + " does not know this call; is it older than this client?";
      case INTERNAL -> peer + " failed unexpectedly (" + describe(status) + "); its log says why";
      case INVALID,
          NOT_FOUND,
          ALREADY_EXISTS,
          CONFLICT,
          EXHAUSTED,
          UNAVAILABLE,
          CANCELLED,
          UNAUTHENTICATED,
          DENIED ->
          description != null ? description : peer + " answered " + status.getCode();
    };
  }

  private static String describe(Status status) {
    return status.getDescription() == null ? status.getCode().name() : status.getDescription();
  }

  private static String rootMessage(Throwable cause) {
    Throwable root = cause;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root.getMessage() == null ? root.getClass().getSimpleName() : root.getMessage();
  }

  static Status.Code code(Reason reason) {
    return switch (reason) {
      case INVALID -> Status.Code.INVALID_ARGUMENT;
      case NOT_FOUND -> Status.Code.NOT_FOUND;
      case ALREADY_EXISTS -> Status.Code.ALREADY_EXISTS;
      case CONFLICT -> Status.Code.FAILED_PRECONDITION;
      case EXHAUSTED -> Status.Code.RESOURCE_EXHAUSTED;
      case UNAVAILABLE -> Status.Code.UNAVAILABLE;
      case TIMED_OUT -> Status.Code.DEADLINE_EXCEEDED;
      case CANCELLED -> Status.Code.CANCELLED;
      case UNAUTHENTICATED -> Status.Code.UNAUTHENTICATED;
      case DENIED -> Status.Code.PERMISSION_DENIED;
      case UNSUPPORTED -> Status.Code.UNIMPLEMENTED;
      case INTERNAL -> Status.Code.INTERNAL;
    };
  }

  static Reason reason(Status.Code code) {
    return switch (code) {
      case INVALID_ARGUMENT, OUT_OF_RANGE -> Reason.INVALID;
      case NOT_FOUND -> Reason.NOT_FOUND;
      case ALREADY_EXISTS -> Reason.ALREADY_EXISTS;
      case FAILED_PRECONDITION, ABORTED -> Reason.CONFLICT;
      case RESOURCE_EXHAUSTED -> Reason.EXHAUSTED;
      case UNAVAILABLE -> Reason.UNAVAILABLE;
      case DEADLINE_EXCEEDED -> Reason.TIMED_OUT;
      case CANCELLED -> Reason.CANCELLED;
      case UNAUTHENTICATED -> Reason.UNAUTHENTICATED;
      case PERMISSION_DENIED -> Reason.DENIED;
      case UNIMPLEMENTED -> Reason.UNSUPPORTED;
      case OK, UNKNOWN, INTERNAL, DATA_LOSS -> Reason.INTERNAL;
    };
  }
}
