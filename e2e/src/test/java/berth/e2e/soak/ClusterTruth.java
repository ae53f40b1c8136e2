package berth.e2e.soak;

import berth.client.cluster.TaskResult.End;
import berth.e2e.soak.ClusterEnding.Attempt;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Whether what Berth tells of the end of a cluster is what its programs have written down, and
 * whether it may end so.
 *
 * @param journals by the names of runs
 * @param killed whether the program of a run may have been killed
 * @param away whether a server was away while the cluster lived
 * @param cancelled whether somebody may have cancelled it
 */
record ClusterTruth(
    ClusterWish wish,
    Function<String, Optional<Journal>> journals,
    Predicate<String> killed,
    Predicate<String> away,
    boolean cancelled) {
  private static final String TASK = "(?<task>\\S+:\\d+) on (?<server>\\S+) ";
  private static final Pattern ENDED = Pattern.compile(TASK + "ended with exit code (?<code>\\d+)");
  private static final Pattern LOST = Pattern.compile(TASK + "is lost: .*");
  private static final Pattern NOT_STARTED = Pattern.compile(TASK + "could not be started: .*");
  private static final int MOST_RESTARTS_OF_A_TASK = 10;
  private static final int FIRST_SIGNAL = 128;
  private static final Set<Integer> OF_SIGNALS = Set.of(128 + 9, 128 + 15);

  /** What is not true; empty if all is. */
  List<String> lies(ClusterEnding ending) {
    List<String> lies = new ArrayList<>();
    for (Attempt attempt : ending.attempts()) {
      if (!attempt.run().isEmpty() && attempt.exitCode().isPresent() && !isTrue(attempt)) {
        lies.add(
            attempt
                + ", but its program wrote down "
                + journals.apply(attempt.run()).map(Journal::toString).orElse("nothing"));
      }
    }
    boolean may =
        switch (ending.outcome()) {
          case SUCCEEDED -> allWorkersAreDone(ending);
          case FAILED -> mayFail(ending);
          case TIME_LIMIT -> wish.seconds() > 0 && ending.resubmissions() >= wish.resubmissions();
          case CANCELLED -> cancelled;
        };
    if (!may) {
      lies.add(
          "it ended as "
              + ending.outcome()
              + " ('"
              + ending.why()
              + "', "
              + ending.restarts()
              + " restarts), which is not true or not allowed; it was "
              + wish);
    }
    return lies;
  }

  private boolean isTrue(Attempt attempt) {
    int said = attempt.exitCode().getAsInt();
    OptionalInt written =
        journals.apply(attempt.run()).map(Journal::end).orElse(OptionalInt.empty());
    if (written.isPresent()) {
      // One that is killed may have written its last word.
      return said == written.getAsInt() || killed.test(attempt.run()) && OF_SIGNALS.contains(said);
    }
    boolean stopped = attempt.end().filter(end -> end != End.FINISHED).isPresent();
    return OF_SIGNALS.contains(said) && (stopped || killed.test(attempt.run()));
  }

  private boolean allWorkersAreDone(ClusterEnding ending) {
    Set<String> done =
        ending.attempts().stream()
            .filter(attempt -> attempt.end().equals(Optional.of(End.FINISHED)))
            .filter(attempt -> attempt.exitCode().equals(OptionalInt.of(0)))
            .map(Attempt::task)
            .collect(Collectors.toSet());
    for (int i = 0; i < wish.workers(); i++) {
      if (!done.contains("worker:" + i)) {
        return false;
      }
    }
    return true;
  }

  private boolean mayFail(ClusterEnding ending) {
    boolean spent = ending.restarts() >= MOST_RESTARTS_OF_A_TASK;
    boolean fragile = wish.restart().equals(ClusterWish.NEVER) || spent;
    Matcher ended = ENDED.matcher(ending.why());
    if (ended.matches()) {
      int code = Integer.parseInt(ended.group("code"));
      boolean own = wish.restart().equals(ClusterWish.EXIT_CODE) && code < FIRST_SIGNAL;
      return (fragile || own)
          && ending.attempts().stream()
              .anyMatch(
                  attempt ->
                      attempt.task().equals(ended.group("task"))
                          && attempt.server().equals(ended.group("server"))
                          && attempt.exitCode().equals(OptionalInt.of(code)));
    }
    for (Pattern why : List.of(LOST, NOT_STARTED)) {
      Matcher matcher = why.matcher(ending.why());
      if (matcher.matches()) {
        return fragile && away.test(matcher.group("server"));
      }
    }
    return false;
  }
}
