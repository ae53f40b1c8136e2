package berth.rpc;

import java.util.Objects;

/**
 * An expected failure, with a message for the person who asked: one sentence that says what was
 * asked and what was found. It crosses the wire whole; its cause and stack trace do not.
 */
public final class BerthException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Reason reason;

  public BerthException(Reason reason, String message) {
    this(reason, message, null);
  }

  public BerthException(Reason reason, String message, Throwable cause) {
    super(Objects.requireNonNull(message), cause);
    this.reason = Objects.requireNonNull(reason);
  }

  public Reason reason() {
    return reason;
  }
}
