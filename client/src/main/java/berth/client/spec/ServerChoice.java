package berth.client.spec;

import java.util.Map;
import java.util.Set;

/**
 * Which servers may be considered.
 *
 * @param labels what a server must have
 * @param names those that may be considered; empty: all
 * @param exclude names of servers that may not
 */
public record ServerChoice(Map<String, String> labels, Set<String> names, Set<String> exclude) {
  public ServerChoice {
    labels = Map.copyOf(labels);
    names = Set.copyOf(names);
    exclude = Set.copyOf(exclude);
  }
}
