package berth.server.run;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Forgets runs that are over, and bundles: by age, and the oldest first when they take too much of
 * the disk or there are too many of them, since a little of each is in memory.
 */
final class Retention {
  private static final Logger log = LoggerFactory.getLogger(Retention.class);
  // Whoever has just uploaded one is about to run it.
  private static final Duration FRESH = Duration.ofMinutes(10);

  private final Duration age;
  private final long bytes;
  private final int runs;
  private final Bundles bundles;

  /**
   * @param age after the end of a run, or the last use of a bundle
   * @param bytes of both together
   * @param runs that are over
   */
  Retention(Duration age, long bytes, int runs, Bundles bundles) {
    this.age = age;
    this.bytes = bytes;
    this.runs = runs;
    this.bundles = bundles;
  }

  /** Something that may be deleted. */
  private record Old(String name, Instant since, long bytes, boolean bundle, Runnable delete) {}

  /**
   * Deletes what need not be kept.
   *
   * @param over runs of which nothing is left but output and files
   * @param needed digests of bundles that unfinished runs need, however long they wait
   */
  void clear(List<Run> over, Set<String> needed, Instant now, Consumer<Run> delete) {
    List<Old> old = new ArrayList<>();
    long total = 0;
    int surplusRuns = over.size() - runs;
    for (Run run : over) {
      long size = run.keptBytes();
      total += size;
      old.add(
          new Old(
              run.id(),
              run.endedAt().orElse(Instant.EPOCH),
              size,
              false,
              () -> delete.accept(run)));
    }
    List<Bundles.Kept> uploaded = bundles.all();
    int surplusBundles = uploaded.size() - bundles.worthKeeping();
    for (Bundles.Kept bundle : uploaded) {
      total += bundle.bytes();
      if (!needed.contains(bundle.digest())) {
        old.add(
            new Old(
                "bundle " + bundle.digest(),
                bundle.lastUse(),
                bundle.bytes(),
                true,
                () -> bundles.delete(bundle.digest(), bundle.lastUse())));
      }
    }
    old.sort(Comparator.comparing(Old::since));
    for (Old one : old) {
      boolean tooOld = one.since.isBefore(now.minus(age));
      boolean fresh = !one.since.isBefore(now.minus(FRESH));
      boolean tooMuch = total > bytes && !fresh;
      boolean tooMany = one.bundle ? surplusBundles > 0 && !fresh : surplusRuns > 0;
      if (tooOld || tooMuch || tooMany) {
        if (one.bundle) {
          surplusBundles--;
        } else {
          surplusRuns--;
        }
        if (tooMuch && !tooOld) {
          log.info("{} is deleted: {} bytes are kept, {} allowed", one.name, total, bytes);
        }
        one.delete.run();
        total -= one.bytes;
      }
    }
  }
}
