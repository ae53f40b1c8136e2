package berth.text;

/** A text does not say what it should. The message says so in words for whoever wrote it. */
public final class InvalidValueException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  public InvalidValueException(String message) {
    super(message);
  }
}
