package berth.host.lock;

import berth.host.gpu.GpuLink;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** Which GPUs of a machine are close to each other. */
final class Topology {
  // Any NVLink beats any PCIe path; distances are 1 (system) to 6 (same board).
  private static final int NVLINK = 1000;

  // Choosing the best of 12870 sets takes milliseconds; beyond, the best neighbour is added one by
  // one.
  private static final long MOST_SETS = 13_000;

  private final Map<Long, Integer> closeness = new HashMap<>();

  Topology(List<GpuLink> links) {
    for (GpuLink link : links) {
      int pcie =
          link.pcie()
              .map(distance -> GpuLink.PcieDistance.values().length - distance.ordinal())
              .orElse(0);
      closeness.put(pair(link.indexA(), link.indexB()), link.nvlinks() * NVLINK + pcie);
    }
  }

  /**
   * The best connected {@code count} GPUs that contain all of {@code fixed}; among equals those
   * with the lowest indices.
   *
   * @param free ascending, disjoint from {@code fixed}
   * @return ascending
   */
  List<Integer> best(int count, List<Integer> fixed, List<Integer> free) {
    int more = count - fixed.size();
    List<Integer> chosen =
        sets(free.size(), more) <= MOST_SETS ? bestSet(more, fixed, free) : grow(more, fixed, free);
    return new ArrayList<>(new TreeSet<>(chosen));
  }

  private List<Integer> bestSet(int more, List<Integer> fixed, List<Integer> free) {
    Search search = new Search(free);
    search.extend(new ArrayList<>(fixed), 0, more, score(fixed));
    return search.best;
  }

  private final class Search {
    private final List<Integer> free;
    private List<Integer> best = List.of();
    private int bestScore = -1;

    Search(List<Integer> free) {
      this.free = free;
    }

    // Sets come in ascending order, and only a better one replaces the best so far.
    void extend(List<Integer> set, int from, int more, int score) {
      if (more == 0) {
        if (score > bestScore) {
          bestScore = score;
          best = List.copyOf(set);
        }
        return;
      }
      for (int i = from; i <= free.size() - more; i++) {
        int gain = gain(set, free.get(i));
        set.add(free.get(i));
        extend(set, i + 1, more - 1, score + gain);
        set.remove(set.size() - 1);
      }
    }
  }

  private List<Integer> grow(int more, List<Integer> fixed, List<Integer> free) {
    List<Integer> best = List.of();
    int bestScore = -1;
    // From every possible start, because the first choice decides most.
    for (int start : free) {
      List<Integer> set = new ArrayList<>(fixed);
      set.add(start);
      while (set.size() < fixed.size() + more) {
        int next = -1;
        for (int candidate : free) {
          if (!set.contains(candidate) && (next < 0 || gain(set, candidate) > gain(set, next))) {
            next = candidate;
          }
        }
        set.add(next);
      }
      if (score(set) > bestScore) {
        bestScore = score(set);
        best = set;
      }
    }
    return best;
  }

  private int score(List<Integer> set) {
    int score = 0;
    for (int i = 0; i < set.size(); i++) {
      score += gain(set.subList(0, i), set.get(i));
    }
    return score;
  }

  private int gain(List<Integer> set, int added) {
    int gain = 0;
    for (int other : set) {
      gain += closeness.getOrDefault(pair(other, added), 0);
    }
    return gain;
  }

  private static long pair(int a, int b) {
    return (long) Math.min(a, b) << 32 | Math.max(a, b);
  }

  private static long sets(int of, int count) {
    long sets = 1;
    for (int i = 1; i <= Math.min(count, of - count); i++) {
      sets = sets * (of - i + 1) / i;
      if (sets > MOST_SETS) {
        return sets;
      }
    }
    return sets;
  }
}
