package berth.client;

import java.util.List;
import java.util.Map;

/**
 * The runs of several servers.
 *
 * @param runs by server, oldest first
 * @param silent servers that did not answer, whose runs are missing, and why
 */
public record RunList(List<RunInfo> runs, Map<String, String> silent) {
  public RunList {
    runs = List.copyOf(runs);
    silent = Map.copyOf(silent);
  }
}
