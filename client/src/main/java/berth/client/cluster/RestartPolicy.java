package berth.client.cluster;

import berth.rpc.BerthException;
import java.util.Locale;

/** Which ends of a task are a reason to start it again. */
public enum RestartPolicy {
  /** None: the first task that fails ends the cluster. */
  NEVER,
  /** Every failure. */
  ON_FAILURE,
  /**
   * Failures that may be nobody's fault: exit codes of 128 and above, which are signals, and the
   * loss of a server. Exit codes from 1 to 127 are the program's own word.
   */
  EXIT_CODE,
  /** Every end that was not asked for, also a good one. */
  ALWAYS;

  private static final int FIRST_SIGNAL = 128;

  /** The policy as people write it: {@code on-failure}. */
  public String word() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  /**
   * The one of a word.
   *
   * @throws BerthException if it is none
   */
  public static RestartPolicy parse(String word) {
    return PolicyWords.parse(word, values(), RestartPolicy::word);
  }

  /** Whether a task that ended so is to be started again, as far as there is budget for it. */
  boolean restarts(TaskResult result) {
    return switch (result.end()) {
      case FINISHED -> restarts(result.exitCode().orElse(-1));
      case OUT_OF_MEMORY, SERVER_LOST, NOT_STARTED -> this != NEVER;
      case STOPPED, CANCELLED, TIME_LIMIT, IDLE, RESTARTED, UNSTARTABLE -> false;
    };
  }

  private boolean restarts(int exitCode) {
    return switch (this) {
      case NEVER -> false;
      case ON_FAILURE -> exitCode != 0;
      case EXIT_CODE -> exitCode >= FIRST_SIGNAL;
      case ALWAYS -> true;
    };
  }
}
