package berth.cli;

import berth.client.cluster.ClusterStates;
import berth.client.cluster.TaskName;
import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Draws one supervised cluster for people, with all that its tasks have been through. */
final class ClusterStatusTable {
  private static final List<String> HEADING =
      List.of(
          "TASK", "ATTEMPT", "SERVER", "ADDRESS", "GPUS", "RUN", "STARTED", "TIME", "EXIT", "WHY");
  private static final String NONE = "-";

  private final TimeText times;

  ClusterStatusTable(TimeText times) {
    this.times = times;
  }

  String render(ClusterStatus cluster) {
    String text =
        PlainText.clean(cluster.getName() + " (" + cluster.getClusterId() + ")")
            + "\n"
            + Columns.render(head(cluster));
    if (cluster.getTasksCount() > 0) {
      text += "\n" + Columns.render(attempts(cluster));
    }
    if (cluster.getNotesCount() > 0) {
      text += "\n" + Columns.render(notes(cluster));
    }
    return text;
  }

  private List<List<String>> head(ClusterStatus cluster) {
    List<List<String>> rows = new ArrayList<>();
    add(rows, "state", state(cluster));
    add(rows, "why", ClustersTable.why(cluster));
    add(rows, "owner", ClustersTable.owner(cluster));
    add(
        rows,
        "since",
        times.time(cluster.getSubmittedAt())
            + (cluster.hasEndedAt() ? ", ended after " : ", for ")
            + TimeText.span(ClustersTable.time(cluster, times)));
    if (cluster.hasEndsBy() && !ClusterStates.hasEnded(cluster)) {
      Duration left = Duration.between(times.now(), Messages.instant(cluster.getEndsBy()));
      add(rows, "time left", TimeText.span(left.isNegative() ? Duration.ZERO : left));
    }
    add(rows, "restarts", Integer.toString(cluster.getRestarts()));
    if (cluster.getResubmissions() > 0) {
      add(rows, "resubmitted", times(cluster.getResubmissions()));
    }
    add(
        rows,
        "supervisor",
        cluster.getServer()
            + (cluster.getSupervisorRestarts() == 0
                ? ""
                : ", restarted " + times(cluster.getSupervisorRestarts())));
    return rows;
  }

  private static String state(ClusterStatus cluster) {
    String outcome = ClustersTable.outcome(cluster.getOutcome());
    boolean over = ClusterStates.hasEnded(cluster);
    return ClustersTable.state(cluster)
        + (over || outcome.isEmpty() ? "" : ", " + outcome)
        + (over ? ", exit " + cluster.getExitCode() : "");
  }

  private static String times(int count) {
    return count == 1 ? "once" : count + " times";
  }

  private static void add(List<List<String>> rows, String key, String value) {
    if (!value.isEmpty()) {
      rows.add(List.of(key, PlainText.clean(value)));
    }
  }

  private List<List<String>> attempts(ClusterStatus cluster) {
    List<List<String>> rows = new ArrayList<>();
    rows.add(HEADING);
    for (TaskStatus task : cluster.getTasksList()) {
      TaskName name = ClusterStates.name(task);
      task.getAttemptsList().forEach(attempt -> rows.add(row(name, attempt)));
      if (task.getAttemptsCount() == 0) {
        rows.add(List.of(name.toString(), NONE, NONE, NONE, wanted(task.getGpuCount())));
      }
    }
    return rows;
  }

  private static String wanted(int gpus) {
    return gpus == 0 ? NONE : "wants " + (gpus < 0 ? "all" : gpus);
  }

  private List<String> row(TaskName name, TaskAttempt attempt) {
    boolean ended = ClusterStates.hasEnded(attempt);
    return List.of(
        name.toString(),
        Integer.toString(attempt.getNumber()),
        orNone(attempt.getServer()),
        orNone(attempt.getAddress()),
        orNone(
            attempt.getGpusList().stream().map(String::valueOf).collect(Collectors.joining(","))),
        orNone(attempt.getRunId()),
        attempt.hasStartedAt() ? times.time(attempt.getStartedAt()) : NONE,
        attempt.hasStartedAt() ? TimeText.span(time(attempt)) : NONE,
        attempt.hasExitCode() ? Integer.toString(attempt.getExitCode()) : NONE,
        ended ? ClusterTable.cut(ClusterTable.why(ClusterStates.result(name, attempt))) : "");
  }

  private Duration time(TaskAttempt attempt) {
    return ClusterStates.hasEnded(attempt)
        ? Messages.duration(attempt.getWallTime())
        : times.since(attempt.getStartedAt());
  }

  private List<List<String>> notes(ClusterStatus cluster) {
    List<List<String>> rows = new ArrayList<>();
    cluster
        .getNotesList()
        .forEach(
            note -> rows.add(List.of(times.time(note.getAt()), PlainText.clean(note.getText()))));
    return rows;
  }

  private static String orNone(String text) {
    return text.isEmpty() ? NONE : PlainText.clean(text);
  }
}
