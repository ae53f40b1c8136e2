package berth.cli;

import berth.client.RunClient;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Run;
import java.util.List;

/** Finds a run by what a person types. */
final class RunIds {
  private RunIds() {}

  /**
   * The run whose id is {@code text}, or the only one whose id begins with it.
   *
   * @throws BerthException if there is none, or more than one
   */
  static Run find(RunClient client, String text) {
    List<Run> known = client.listRuns(ServerOption.TIMEOUT).getRunsList();
    List<Run> found =
        known.stream().filter(run -> run.getRunId().startsWith(text) && !text.isEmpty()).toList();
    for (Run run : found) {
      if (run.getRunId().equals(text)) {
        return run;
      }
    }
    if (found.size() == 1) {
      return found.get(0);
    }
    throw found.isEmpty()
        ? new BerthException(
            Reason.NOT_FOUND, "there is no run '" + text + "'; 'berth runs --all' lists them")
        : new BerthException(
            Reason.INVALID,
            "'"
                + text
                + "' begins the names of several runs: "
                + String.join(", ", found.stream().map(Run::getRunId).toList()));
  }
}
