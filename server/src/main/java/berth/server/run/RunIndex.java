package berth.server.run;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;

/** The runs that are known, by all that they are looked for by. Any thread may call. */
final class RunIndex {
  private final NavigableMap<Long, Run> byNumber = new TreeMap<>();
  private final NavigableMap<String, Run> byId = new TreeMap<>();
  private final NavigableMap<Long, Run> unfinished = new TreeMap<>();
  private final Map<String, Run> byRequest = new HashMap<>();

  synchronized void add(Run run) {
    byNumber.put(run.number(), run);
    byId.put(run.id(), run);
    if (!run.cleaned().isDone()) {
      unfinished.put(run.number(), run);
    }
    if (!run.requestId().isEmpty()) {
      byRequest.put(run.requestId(), run);
    }
  }

  /** Notes that nothing is left of a run but its output. */
  synchronized void cleaned(Run run) {
    unfinished.remove(run.number());
  }

  synchronized void remove(Run run) {
    byNumber.remove(run.number());
    byId.remove(run.id());
    unfinished.remove(run.number());
    byRequest.remove(run.requestId(), run);
  }

  synchronized Optional<Run> find(String id) {
    return Optional.ofNullable(byId.get(id));
  }

  synchronized Optional<Run> ofRequest(String requestId) {
    return Optional.ofNullable(byRequest.get(requestId));
  }

  /** All runs, oldest first. */
  synchronized List<Run> all() {
    return List.copyOf(byNumber.values());
  }

  /** Those of which more is left than their output, oldest first. */
  synchronized List<Run> unfinished() {
    return List.copyOf(unfinished.values());
  }

  /** Those whose id begins so. */
  synchronized List<Run> beginningWith(String prefix) {
    return List.copyOf(byId.subMap(prefix, true, prefix + Character.MAX_VALUE, true).values());
  }

  /**
   * The newest that pass a filter, newest first.
   *
   * @param before only such as were accepted before this one; empty: all
   */
  synchronized List<Run> newest(Optional<Long> before, Predicate<Run> filter, int most) {
    Collection<Run> candidates =
        before
            .map(number -> byNumber.headMap(number, false))
            .orElse(byNumber)
            .descendingMap()
            .values();
    List<Run> found = new ArrayList<>();
    for (Run run : candidates) {
      if (found.size() >= most) {
        break;
      }
      if (filter.test(run)) {
        found.add(run);
      }
    }
    return found;
  }
}
