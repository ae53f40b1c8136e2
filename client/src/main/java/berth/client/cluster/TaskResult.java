package berth.client.cluster;

import java.time.Duration;
import java.util.OptionalInt;

/**
 * How a task ended.
 *
 * @param server the name of its server
 * @param runId its run there; empty if it never got so far
 * @param exitCode of its program; empty if that never ran, or nobody knows
 * @param why the same in words, for people
 * @param wallTime from the start of its program to its end
 * @param attempt which of its starts this was the end of, from 1
 */
public record TaskResult(
    TaskName task,
    String server,
    String runId,
    End end,
    OptionalInt exitCode,
    String why,
    Duration wallTime,
    int attempt) {

  /** The ways in which a task can end. */
  public enum End {
    /** By itself, well or not: see the exit code. */
    FINISHED("finished"),
    /** It was stopped, since it was not needed any more: the training was over. */
    STOPPED("stopped when the training was over"),
    /** It was stopped because another task failed, or because somebody wanted it. */
    CANCELLED("cancelled"),
    /** Its time was over. */
    TIME_LIMIT("its time was over"),
    /** It used more memory than it may. */
    OUT_OF_MEMORY("out of memory"),
    /** It could not be started, this time. */
    NOT_STARTED("could not be started"),
    /** It can never be started, such as for want of its image. */
    UNSTARTABLE("can never be started"),
    /** Its server is lost. */
    SERVER_LOST("its server is lost"),
    /** Its GPUs were not used. */
    IDLE("its GPUs were idle"),
    /** It was stopped because all of the cluster starts again. */
    RESTARTED("stopped, to start again");

    private final String words;

    End(String words) {
      this.words = words;
    }

    /** The same for people. */
    public String words() {
      return words;
    }
  }

  /** How it ended, in a few words. */
  String words() {
    return why.isEmpty() ? end.words() : why;
  }

  /** Who ended how, in a sentence. */
  String described() {
    return task
        + " on "
        + server
        + " "
        + switch (end) {
          case FINISHED ->
              "ended with " + (why.isEmpty() ? "exit code " + exitCode.orElse(-1) : why);
          case TIME_LIMIT -> "was ended because its time was over";
          case NOT_STARTED, UNSTARTABLE -> "could not be started: " + why;
          case OUT_OF_MEMORY -> "ran out of memory: " + why;
          case SERVER_LOST -> "is lost: " + why;
          case IDLE -> "was ended: " + why;
          case CANCELLED, STOPPED, RESTARTED -> "was cancelled: " + why;
        };
  }

  /** Whether it did what it should, as far as it was asked to. */
  public boolean well() {
    return end == End.STOPPED || end == End.FINISHED && exitCode.orElse(-1) == 0;
  }
}
