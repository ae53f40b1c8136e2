package berth.e2e.soak;

import berth.e2e.soak.Tally.Count;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Looks all the time at what programs see, and at what should be gone:
 *
 * <ul>
 *   <li>no GPU is used by two, ever;
 *   <li>no run is started twice, ever;
 *   <li>no task of a cluster and no single run is there twice. Only this is excused: the server of
 *       the one that was there first was away within the last minute, when its lease may not have
 *       been over yet;
 *   <li>what was left by its client is gone within a minute in which its server runs.
 * </ul>
 */
final class SoakWatch {
  private static final Duration LEASE_IS_OVER = Duration.ofSeconds(60);
  private static final Duration LEFT_FOR = Duration.ofSeconds(60);

  private final SoakParts parts;
  private final Set<String> blamed = new HashSet<>();

  SoakWatch(SoakParts parts) {
    this.parts = parts;
  }

  /** To be called every few seconds, by one thread at a time. */
  void look() {
    parts.witness().seen().forEach(this::judge);
    Map<String, Long> leftAlone = parts.targets().leftAlone();
    for (Journal journal : parts.witness().living()) {
      Long since = leftAlone.get(journal.name());
      if (since != null) {
        Absences absences = parts.world().server(journal.server()).absences();
        boolean late = System.nanoTime() - absences.upSince(since) > LEFT_FOR.toNanos();
        if (late && !absences.now() && blamed.add(journal.run())) {
          parts.tally().violation("nobody wants " + journal.name() + ", but there is " + journal);
        }
      }
    }
  }

  private void judge(String seen) {
    String[] words = seen.split(" ");
    if (words[0].equals("task") && excused(words[3])) {
      parts.tally().add(Count.EXCUSED_OVERLAPS);
      parts.tally().note("twice, with an excuse: " + seen);
    } else {
      List<String> involved = List.of(words).subList(1, words.length);
      parts
          .tally()
          .violation(
              seen
                  + ": "
                  + involved.stream().flatMap(r -> parts.witness().journal(r).stream()).toList());
    }
  }

  private boolean excused(String first) {
    return parts
        .witness()
        .journal(first)
        .map(journal -> parts.world().server(journal.server()).absences().within(LEASE_IS_OVER))
        .orElse(false);
  }
}
