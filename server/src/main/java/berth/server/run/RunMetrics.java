package berth.server.run;

import berth.metrics.Counter;
import berth.metrics.Gauge;
import berth.metrics.Histogram;
import berth.metrics.Labelled;
import berth.metrics.Metrics;
import berth.metrics.Readings;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The metrics of runs. Any thread may call. */
final class RunMetrics {
  private static final double[] START_BOUNDS = {
    .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800
  };
  private static final String FAILED = "failed";

  private static final Gauge RUNS =
      Gauge.of(
          "berth_runs",
          "Runs by phase: queued, preparing, launching, running, ended (what they held is still to"
              + " be freed).",
          "phase");
  private static final Gauge HELD_BACK =
      Gauge.of(
          "berth_runs_held_back",
          "Ended runs whose GPUs are still held back by what is left of them.");
  private static final Gauge RUNTIME =
      Gauge.of("berth_runtime_up", "1 if this server can run code, else 0.");
  private static final Gauge DISK_FREE =
      Gauge.of("berth_state_disk_free_bytes", "Free space on the disk of the state folder.");
  private static final Gauge DISK_SIZE =
      Gauge.of("berth_state_disk_size_bytes", "Size of the disk of the state folder.");

  private final Counter accepted;
  private final Labelled<Counter> ended;
  private final Histogram start;
  private final Counter output;

  RunMetrics(Metrics metrics) {
    accepted = metrics.counter("berth_runs_accepted_total", "Runs accepted.");
    ended =
        metrics.counters(
            "berth_runs_ended_total",
            "Ended runs by cause. finished: by itself with exit code 0; failed:"
                + " with another one.",
            "reason");
    for (ExitReason reason : ExitReason.values()) {
      ended.with(label(reason));
    }
    ended.with(FAILED);
    start =
        metrics.histogram(
            "berth_run_start_seconds",
            "Time from acceptance of a run to the start of its program, without the time in the"
                + " queue.",
            START_BOUNDS);
    output = metrics.counter("berth_run_output_bytes_total", "Run output stored by this server.");
  }

  void accepted() {
    accepted.increment();
  }

  void started(long afterNanos) {
    start.observeNanos(Math.max(0, afterNanos));
  }

  void printed(long bytes) {
    output.add(bytes);
  }

  void ended(Ended end) {
    boolean failed = end.reason() == ExitReason.FINISHED && end.exitCode() != 0;
    ended.with(failed ? FAILED : label(end.reason())).increment();
  }

  /** Shows the runs themselves, and the disk that they are on. */
  static void report(Runs runs, Path stateFolder, Metrics metrics) {
    metrics.gauges(
        List.of(RUNS, HELD_BACK, RUNTIME),
        readings -> {
          readRuns(runs.index().unfinished(), readings);
          readings.set(RUNTIME, runs.load().problem().isEmpty());
        });
    metrics.gauges(
        List.of(DISK_FREE, DISK_SIZE),
        readings -> {
          try {
            StateDisk.Space disk = StateDisk.space(stateFolder);
            readings.set(DISK_FREE, disk.free());
            readings.set(DISK_SIZE, disk.total());
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }

  private static void readRuns(List<Run> runs, Readings readings) {
    Map<Phase, Integer> count = new EnumMap<>(Phase.class);
    int heldBack = 0;
    for (Run run : runs) {
      Run.View view = run.view();
      count.merge(view.record().phase(), 1, Integer::sum);
      heldBack += view.heldBack().isEmpty() ? 0 : 1;
    }
    for (Phase phase : Phase.values()) {
      if (phase != Phase.CLEANED) {
        readings.set(RUNS, count.getOrDefault(phase, 0), phase.name().toLowerCase(Locale.ROOT));
      }
    }
    readings.set(HELD_BACK, heldBack);
  }

  private static String label(ExitReason reason) {
    return reason.name().toLowerCase(Locale.ROOT);
  }
}
