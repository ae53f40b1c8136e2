package berth.cli;

import berth.client.cluster.ClusterPlan;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import berth.rpc.PlainText;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;

/** Draws the tasks of a cluster for people, one line each. */
final class ClusterTable {
  private static final List<String> PLACEMENT = List.of("TASK", "SERVER", "GPUS", "ADDRESS");
  private static final List<String> RESULTS =
      List.of("TASK", "SERVER", "RUN", "EXIT", "TIME", "WHY");
  private static final int LONGEST_WHY = 60;

  private ClusterTable() {}

  /**
   * Where the tasks are.
   *
   * @param gpuCounts how many GPUs each asks for; -1: all of a server
   * @param most how many to show
   */
  static String placement(
      Map<TaskName, Integer> gpuCounts, ClusterPlan plan, ClusterSpec spec, int most) {
    List<List<String>> rows = new ArrayList<>();
    rows.add(PLACEMENT);
    plan.servers().entrySet().stream()
        .limit(most)
        .forEach(
            entry ->
                rows.add(
                    List.of(
                        entry.getKey().toString(),
                        PlainText.clean(entry.getValue().name()),
                        gpus(gpuCounts.get(entry.getKey())),
                        spec.address(entry.getKey()).toString())));
    int more = plan.servers().size() - most;
    return Columns.render(rows) + (more > 0 ? "and " + more + " more\n" : "");
  }

  /** The tasks of a request in their order, each with how many GPUs it asks for. */
  static Map<TaskName, Integer> gpuCounts(ClusterRequest request) {
    Map<TaskName, Integer> counts = new LinkedHashMap<>();
    request.tasks().forEach(task -> counts.put(task, request.group(task).gpuCount()));
    return counts;
  }

  private static String gpus(int count) {
    return count < 0 ? "all" : Integer.toString(count);
  }

  /**
   * How the tasks ended.
   *
   * @param most how many to show; if there are more, those that did not do what they should
   */
  static String results(ClusterResult result, int most) {
    List<TaskResult> tasks = result.tasks();
    boolean all = tasks.size() <= most;
    List<List<String>> rows = new ArrayList<>();
    rows.add(RESULTS);
    tasks.stream()
        .filter(task -> all || !task.well())
        .limit(most)
        .forEach(task -> rows.add(row(task)));
    int more = tasks.size() - rows.size() + 1;
    if (rows.size() == 1) {
      return more == 0 ? "" : "all " + more + " tasks ended as expected\n";
    }
    return Columns.render(rows) + (more > 0 ? "and " + more + " more\n" : "");
  }

  private static List<String> row(TaskResult task) {
    return List.of(
        task.task().toString(),
        task.server().isEmpty() ? "-" : PlainText.clean(task.server()),
        task.runId().isEmpty() ? "-" : PlainText.clean(task.runId()),
        exit(task.exitCode()),
        task.runId().isEmpty() ? "-" : TimeText.span(task.wallTime()),
        cut(why(task)) + (task.attempt() > 1 ? " (start " + task.attempt() + ")" : ""));
  }

  // All of it was told when the task ended, and is told again at the end of the cluster.
  static String cut(String text) {
    return text.length() <= LONGEST_WHY ? text : text.substring(0, LONGEST_WHY - 3) + "...";
  }

  private static String exit(OptionalInt code) {
    return code.isPresent() ? Integer.toString(code.getAsInt()) : "-";
  }

  /** Why a task ended, in words. */
  static String why(TaskResult task) {
    return task.why().isEmpty()
        ? task.end().name().toLowerCase(Locale.ROOT).replace('_', ' ')
        : PlainText.clean(task.why());
  }
}
