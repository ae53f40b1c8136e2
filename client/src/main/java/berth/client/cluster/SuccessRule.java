package berth.client.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;

/**
 * When a training counts as done.
 *
 * @param kind whose end matters
 * @param percent of the workers, where a share of them is enough; else 100
 */
public record SuccessRule(Kind kind, int percent) {
  /** Whose end matters. */
  public enum Kind {
    /** That of the chief; where there is none, that of worker 0. */
    CHIEF,
    /** That of the chief, which its workers may outlive by a grace; without a chief, WORKERS. */
    USUAL,
    /** That of the chief and of all workers. */
    WORKERS,
    /** That of the chief, if there is one, and of so many of the workers. */
    SHARE
  }

  /**
   * The chief and all workers must be done. But workers that go on after their chief are stopped
   * after a grace: those of TensorFlow's ParameterServerStrategy never end by themselves.
   */
  public static final SuccessRule USUAL = new SuccessRule(Kind.USUAL, 100);

  /** The chief and all workers must be done, however long that takes. */
  public static final SuccessRule ALL_WORKERS = new SuccessRule(Kind.WORKERS, 100);

  /** The chief must be done, or worker 0 where there is none. */
  public static final SuccessRule CHIEF = new SuccessRule(Kind.CHIEF, 100);

  public SuccessRule {
    if (percent < 1 || percent > 100) {
      throw new BerthException(
          Reason.INVALID, percent + " % of the workers cannot be done; from 1 to 100 can");
    }
  }

  /** A part of the workers is enough. */
  public static SuccessRule share(int percent) {
    return new SuccessRule(Kind.SHARE, percent);
  }

  /**
   * Reads {@code chief}, {@code workers}, or a share such as {@code 80%}.
   *
   * @throws BerthException if it is none of these
   */
  public static SuccessRule parse(String text) {
    if (text.equals("chief")) {
      return CHIEF;
    }
    if (text.equals("workers")) {
      return ALL_WORKERS;
    }
    if (text.matches("\\d{1,3}%")) {
      return share(Integer.parseInt(text.substring(0, text.length() - 1)));
    }
    throw new BerthException(
        Reason.INVALID, "'" + text + "' is neither chief nor workers nor a share such as 80%");
  }

  /** How many of so many workers must be done. */
  int needed(int workers) {
    return (int) Math.ceil(workers * percent / 100.0);
  }
}
