package berth.host.state;

import java.io.IOException;

/** A file does not hold what was written into it: it was cut short, or changed. */
public final class DamagedFileException extends IOException {
  private static final long serialVersionUID = 1;

  public DamagedFileException(String message) {
    super(message);
  }
}
