package berth.client.cluster;

import berth.rpc.BerthException;
import java.util.Locale;

/** What becomes of tasks when their cluster is done or has failed. */
public enum Cleaning {
  /** Those that still run are stopped, and what all of them printed and left is deleted too. */
  ALL,
  /** Those that still run are stopped. */
  RUNNING,
  /** Only parameter servers and others in the background are; the rest may end by itself. */
  PS,
  /** Nothing is stopped, so that people can look inside. */
  NONE;

  /** As people write it. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  /**
   * The one of a word.
   *
   * @throws BerthException if it is none
   */
  public static Cleaning parse(String word) {
    return PolicyWords.parse(word, values(), Cleaning::word);
  }
}
