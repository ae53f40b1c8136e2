package berth.fuzz;

import berth.rpc.BerthException;
import java.util.Optional;

/** What every target expects of the code that reads its input. */
public final class Inputs {
  /** Reads an input. */
  public interface Reading<T> {
    T read() throws Exception;
  }

  private Inputs() {}

  /**
   * What was read of an input; empty if it was refused as it should be, by a {@link
   * BerthException}.
   */
  public static <T> Optional<T> accepted(Reading<T> reading) throws Exception {
    try {
      return Optional.of(reading.read());
    } catch (BerthException e) {
      return Optional.empty();
    }
  }
}
