package berth.e2e.clusters;

import berth.e2e.fixture.Installed.Result;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** What {@code berth cluster run} showed, as a person reads it. */
record ShownCluster(int exitCode, String out, String err) {
  /** A line of the table at the end. */
  record End(String server, String run, String exit, String time, String why) {}

  ShownCluster(Result result) {
    this(result.exitCode(), result.out(), result.err());
  }

  /** What a task printed on standard output, line by line. */
  List<String> printed(String task) {
    String prefix = "[" + task + "]";
    return out.lines()
        .filter(line -> line.startsWith(prefix))
        .map(line -> line.substring(prefix.length()).stripLeading())
        .toList();
  }

  /** Where each task listens, by the table at the beginning. */
  Map<String, String> addresses() {
    return table("TASK +SERVER +GPUS +ADDRESS").entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, row -> row.getValue().get(3)));
  }

  /** How each task ended, by the table at the end. */
  Map<String, End> ends() {
    Map<String, End> ends = new LinkedHashMap<>();
    table("TASK +SERVER +RUN +EXIT +TIME +WHY")
        .forEach(
            (task, row) ->
                ends.put(
                    task, new End(row.get(1), row.get(2), row.get(3), row.get(4), row.get(5))));
    return ends;
  }

  /** The servers on which tasks were. */
  Set<String> servers() {
    return ends().values().stream().map(End::server).collect(Collectors.toSet());
  }

  /** What Berth said last but for where the logs are. */
  String lastWord() {
    List<String> said =
        err.lines()
            .filter(line -> line.startsWith("berth: ") && !line.startsWith("berth: logs: "))
            .toList();
    return said.isEmpty() ? "" : said.get(said.size() - 1);
  }

  private Map<String, List<String>> table(String head) {
    Map<String, List<String>> rows = new LinkedHashMap<>();
    List<String> lines = new ArrayList<>(err.lines().toList());
    while (!lines.isEmpty() && !lines.remove(0).matches(head)) {
      // Something else.
    }
    for (String line : lines) {
      List<String> cells = List.of(line.split(" {2,}"));
      if (!cells.get(0).matches("[a-z]+:\\d+") || cells.size() < 2) {
        break;
      }
      rows.put(cells.get(0), cells);
    }
    return rows;
  }
}
