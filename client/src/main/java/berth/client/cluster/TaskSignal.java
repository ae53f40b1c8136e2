package berth.client.cluster;

import berth.client.spec.Warning;
import berth.rpc.BerthException;
import java.util.Optional;

/**
 * What the tasks of one type get ahead of the end of the time limit, whatever the others get.
 *
 * @param warning empty: nothing
 */
public record TaskSignal(Optional<Warning> warning) {
  private static final String NONE = "none";

  /**
   * Reads {@code USR1@60}, or {@code none}.
   *
   * @throws BerthException if it is something else
   */
  public static TaskSignal parse(String text) {
    return new TaskSignal(text.equals(NONE) ? Optional.empty() : Optional.of(Warning.parse(text)));
  }
}
