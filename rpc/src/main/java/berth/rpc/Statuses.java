package berth.rpc;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.net.UnknownHostException;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.stream.Stream;
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

  private static final String HEX_OF_HTTP1 = "485454502f";

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
    if (said) {
      return new BerthException(
          reason, Objects.requireNonNullElse(status.getDescription(), ""), failure);
    }
    String answers =
        reason == Reason.UNSUPPORTED && trailers != null ? trailers.get(OtherDaemon.WHO) : null;
    return new BerthException(
        reason,
        answers == null ? message(reason, status, peer) : otherDaemon(answers, peer),
        failure);
  }

  // A peer is told as "berthd at HOST:PORT".
  private static String otherDaemon(String answers, String peer) {
    String address = peer.substring(peer.lastIndexOf(' ') + 1);
    return answers.equals(OtherDaemon.REGISTRY)
        ? "a registry answers at "
            + address
            + ", not berthd: use --registry "
            + address
            + ", or give --server the address of a berthd (its port is 18812 by default)"
        : "berthd answers at "
            + address
            + ", not a registry: use --server "
            + address
            + ", or give --registry the address of a registry (its port is 18811 by default)";
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
    if (speaksHttp1(status)) {
      return "no "
          + peer
          + ": this is an HTTP port, such as that of the page or of metrics; use the gRPC port (by"
          + " default 18812 of berthd, 18811 of a registry)";
    }
    Optional<String> unresolved = unresolvedHost(status);
    if (unresolved.isPresent()) {
      return "no "
          + peer
          + ": host "
          + unresolved.get()
          + " not found; check the name, or give an IP address";
    }
    if (status.getCause() != null && reason == Reason.UNAVAILABLE) {
      // The transport's own failure: its description is "io exception", the cause has the
      // substance.
      return "no " + peer + ": " + rootMessage(status.getCause());
    }
    return switch (reason) {
      case TIMED_OUT -> peer + " did not answer in time";
      case UNSUPPORTED -> peer + " does not know this call; is it older than this client?";
      case INTERNAL -> peer + " failed unexpectedly (" + describe(status) + "); see its log";
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

  // gRPC begins by reading a frame, and quotes what it read in its place.
  private static boolean speaksHttp1(Status status) {
    return causes(status)
        .map(Throwable::getMessage)
        .filter(Objects::nonNull)
        .anyMatch(message -> message.contains(HEX_OF_HTTP1));
  }

  private static Optional<String> unresolvedHost(Status status) {
    return causes(status)
        .filter(UnknownHostException.class::isInstance)
        .map(cause -> String.valueOf(cause.getMessage()).split(":", 2)[0])
        .findFirst();
  }

  private static Stream<Throwable> causes(Status status) {
    return Stream.iterate(status.getCause(), Objects::nonNull, Throwable::getCause);
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
