package berth.e2e.soak;

import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * How a cluster ended, as Berth tells it.
 *
 * @param attempts every start of a task that is known
 */
record ClusterEnding(
    Outcome outcome, String why, int restarts, int resubmissions, List<Attempt> attempts) {
  /**
   * A start of a task.
   *
   * @param run empty if it never got that far
   * @param exitCode empty if nobody knows it
   */
  record Attempt(String task, String server, String run, Optional<End> end, OptionalInt exitCode) {}

  /** That of a supervised cluster. */
  static ClusterEnding of(ClusterStatus status) {
    List<Attempt> attempts = new ArrayList<>();
    for (TaskStatus task : status.getTasksList()) {
      String name = task.getType() + ":" + task.getIndex();
      for (TaskAttempt attempt : task.getAttemptsList()) {
        attempts.add(
            new Attempt(
                name,
                attempt.getServer(),
                attempt.getRunId(),
                attempt.getEnd() == TaskEnd.TASK_END_UNSPECIFIED
                    ? Optional.empty()
                    : Optional.of(End.valueOf(withoutPrefix(attempt.getEnd(), "TASK_END_"))),
                attempt.hasExitCode()
                    ? OptionalInt.of(attempt.getExitCode())
                    : OptionalInt.empty()));
      }
    }
    return new ClusterEnding(
        Outcome.valueOf(withoutPrefix(status.getOutcome(), "CLUSTER_OUTCOME_")),
        status.getWhy(),
        status.getRestarts(),
        status.getResubmissions(),
        attempts);
  }

  private static String withoutPrefix(Enum<?> value, String prefix) {
    return value.name().substring(prefix.length());
  }

  /**
   * That of a cluster whose events a client has printed as JSON; empty if its end is not among
   * them.
   */
  static Optional<ClusterEnding> of(List<JsonObject> events) {
    List<Attempt> attempts = new ArrayList<>();
    int restarts = 0;
    int resubmissions = 0;
    JsonObject result = null;
    for (JsonObject event : events) {
      switch (text(event, "event")) {
        case "ended" -> attempts.add(attempt(event));
        case "restarting" -> restarts++;
        case "reforming" -> {
          if (text(event, "why").startsWith("its time was over")) {
            resubmissions++;
          } else {
            restarts++;
          }
        }
        case "result" -> result = event;
        default -> {}
      }
    }
    if (result == null) {
      return Optional.empty();
    }
    return Optional.of(
        new ClusterEnding(
            Outcome.valueOf(text(result, "outcome").toUpperCase(Locale.ROOT)),
            text(result, "why"),
            restarts,
            resubmissions,
            attempts));
  }

  private static Attempt attempt(JsonObject ended) {
    return new Attempt(
        text(ended, "task"),
        text(ended, "server"),
        text(ended, "run"),
        Optional.of(End.valueOf(text(ended, "end"))),
        ended.has("exitCode")
            ? OptionalInt.of(ended.get("exitCode").getAsInt())
            : OptionalInt.empty());
  }

  private static String text(JsonObject json, String key) {
    return json.get(key).getAsString();
  }
}
