package berth.e2e.soak;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What a soak counts, and what it finds wrong. All of it is in its log too. Any thread may call.
 */
final class Tally {
  /** What is counted. */
  enum Count {
    CLUSTERS_SUCCEEDED,
    CLUSTERS_FAILED,
    CLUSTERS_CANCELLED,
    /** Their time was over. */
    CLUSTERS_OUT_OF_TIME,
    /** Their client was killed. */
    CLUSTERS_ABANDONED,
    /** Nobody took them, since somebody was away. */
    CLUSTERS_REFUSED,
    RUNS_SUCCEEDED,
    /** They ended with another exit code than 0, or were killed. */
    RUNS_FAILED,
    RUNS_CANCELLED,
    RUNS_OUT_OF_TIME,
    RUNS_ABANDONED,
    RUNS_REFUSED,
    /** Of tasks, or of all tasks of a cluster. */
    RESTARTS,
    RESUBMISSIONS,
    SUPERVISOR_RESTARTS,
    /** A task that ran twice while its first server could not be reached. */
    EXCUSED_OVERLAPS
  }

  private final Path log;
  private final Map<Count, Integer> counts = new EnumMap<>(Count.class);
  private final Map<Fault, Integer> faults = new EnumMap<>(Fault.class);
  private final List<String> violations = new CopyOnWriteArrayList<>();
  private volatile boolean over;

  Tally(Path log) {
    this.log = log;
  }

  void add(Count what) {
    add(what, 1);
  }

  synchronized void add(Count what, int times) {
    counts.merge(what, times, Integer::sum);
  }

  synchronized void add(Fault fault) {
    faults.merge(fault, 1, Integer::sum);
  }

  /** From now on nothing counts: somebody has pressed Ctrl-C, and everything ends anyhow. */
  void end() {
    over = true;
  }

  void violation(String text) {
    if (over) {
      return;
    }
    violations.add(text);
    System.out.println("VIOLATION: " + text);
    note("VIOLATION: " + text);
  }

  List<String> violations() {
    return violations;
  }

  synchronized int of(Count... what) {
    return Stream.of(what).mapToInt(count -> counts.getOrDefault(count, 0)).sum();
  }

  synchronized int of(Fault fault) {
    return faults.getOrDefault(fault, 0);
  }

  synchronized int allFaults() {
    return faults.values().stream().mapToInt(Integer::intValue).sum();
  }

  /** Writes what happened to the log. */
  synchronized void note(String text) {
    if (over) {
      return;
    }
    try {
      Files.writeString(
          log,
          LocalTime.now().truncatedTo(ChronoUnit.MILLIS) + " " + text + "\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Where it stands, in a line. */
  String line(long seconds) {
    return "%3d:%02d  clusters %d succeeded, %d failed, %d cancelled; runs %d ended; %d restarts; %d faults; %d violations"
        .formatted(
            seconds / 60,
            seconds % 60,
            of(Count.CLUSTERS_SUCCEEDED),
            of(Count.CLUSTERS_FAILED, Count.CLUSTERS_OUT_OF_TIME),
            of(Count.CLUSTERS_CANCELLED, Count.CLUSTERS_ABANDONED),
            runs(),
            restarts(),
            allFaults(),
            violations.size());
  }

  private int restarts() {
    return of(Count.RESTARTS, Count.RESUBMISSIONS, Count.SUPERVISOR_RESTARTS);
  }

  int clusters() {
    return of(
        Count.CLUSTERS_SUCCEEDED,
        Count.CLUSTERS_FAILED,
        Count.CLUSTERS_CANCELLED,
        Count.CLUSTERS_OUT_OF_TIME,
        Count.CLUSTERS_ABANDONED);
  }

  int runs() {
    return of(
        Count.RUNS_SUCCEEDED,
        Count.RUNS_FAILED,
        Count.RUNS_CANCELLED,
        Count.RUNS_OUT_OF_TIME,
        Count.RUNS_ABANDONED);
  }

  /** All counts, in several lines. */
  String report() {
    return """
    clusters    %d: %d succeeded, %d failed, %d out of time, %d cancelled, %d left by their client; %d more refused
    runs        %d: %d succeeded, %d failed, %d out of time, %d cancelled, %d left by their client; %d more refused
    restarts    %d of tasks and clusters, %d of clusters whose time was over, %d of supervisors
    faults      %d: %s
    twice       %d tasks ran twice while their first server could not be reached
    violations: %d
    """
        .formatted(
            clusters(),
            of(Count.CLUSTERS_SUCCEEDED),
            of(Count.CLUSTERS_FAILED),
            of(Count.CLUSTERS_OUT_OF_TIME),
            of(Count.CLUSTERS_CANCELLED),
            of(Count.CLUSTERS_ABANDONED),
            of(Count.CLUSTERS_REFUSED),
            runs(),
            of(Count.RUNS_SUCCEEDED),
            of(Count.RUNS_FAILED),
            of(Count.RUNS_OUT_OF_TIME),
            of(Count.RUNS_CANCELLED),
            of(Count.RUNS_ABANDONED),
            of(Count.RUNS_REFUSED),
            of(Count.RESTARTS),
            of(Count.RESUBMISSIONS),
            of(Count.SUPERVISOR_RESTARTS),
            allFaults(),
            Stream.of(Fault.values())
                .map(fault -> of(fault) + " " + fault.words())
                .collect(Collectors.joining(", ")),
            of(Count.EXCUSED_OVERLAPS),
            violations.size());
  }
}
