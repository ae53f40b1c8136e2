package berth.e2e.soak;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/** When something could not be reached. Times are those of {@link System#nanoTime}. Any thread. */
final class Absences {
  /** Why. */
  enum Kind {
    /** It did not run. */
    DOWN,
    /** It ran, and nobody heard of it. */
    CUT
  }

  private static final class Absence {
    private final Kind kind;
    private final long from = System.nanoTime();
    private long to;
    private boolean over;

    Absence(Kind kind) {
      this.kind = kind;
    }

    long end() {
      return over ? to : System.nanoTime();
    }
  }

  private final List<Absence> all = new ArrayList<>();

  synchronized void begin(Kind kind) {
    all.add(new Absence(kind));
  }

  synchronized void end(Kind kind) {
    all.stream()
        .filter(absence -> absence.kind == kind && !absence.over)
        .forEach(
            absence -> {
              absence.to = System.nanoTime();
              absence.over = true;
            });
  }

  synchronized boolean now() {
    return all.stream().anyMatch(absence -> !absence.over);
  }

  /** Whether it was away at any time since then. */
  boolean since(long nanos) {
    return any(nanos, absence -> true);
  }

  /** The same for one reason. */
  boolean since(Kind kind, long nanos) {
    return any(nanos, absence -> absence.kind == kind);
  }

  /** Whether it was away within the last so long. */
  boolean within(Duration time) {
    return since(System.nanoTime() - time.toNanos());
  }

  private synchronized boolean any(long nanos, Predicate<Absence> wanted) {
    return all.stream().filter(wanted).anyMatch(absence -> absence.end() - nanos >= 0);
  }

  /** When it was there again after it last did not run; {@code otherwise} if that was later. */
  synchronized long upSince(long otherwise) {
    return all.stream()
        .filter(absence -> absence.kind == Kind.DOWN)
        .mapToLong(Absence::end)
        .filter(end -> end - otherwise > 0)
        .max()
        .orElse(otherwise);
  }
}
