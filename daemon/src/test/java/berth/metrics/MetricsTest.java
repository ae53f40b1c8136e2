package berth.metrics;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class MetricsTest {
  private static final Gauge ROOM = Gauge.of("berth_room", "How many there is room for.");
  private static final Gauge HEAT =
      Gauge.of("berth_heat_celsius", "How hot it is.", "gpu", "model");

  private final Metrics metrics = new Metrics();

  @Test
  void countsFromZero() {
    Counter runs = metrics.counter("berth_runs_ended_total", "Runs that are over.");
    assertThat(lines())
        .contains(
            "# HELP berth_runs_ended_total Runs that are over.",
            "# TYPE berth_runs_ended_total counter",
            "berth_runs_ended_total 0.0");
    runs.increment();
    runs.add(41);
    assertThat(lines()).contains("berth_runs_ended_total 42.0");
  }

  @Test
  void countsByLabel() {
    var ends = metrics.counters("berth_runs_ended_total", "Runs that are over.", "reason");
    ends.with("finished").increment();
    ends.with("idle");
    assertThat(lines())
        .contains(
            "berth_runs_ended_total{reason=\"finished\"} 1.0",
            "berth_runs_ended_total{reason=\"idle\"} 0.0");
  }

  @Test
  void measuresTimeInSeconds() {
    Histogram wait = metrics.histogram("berth_wait_seconds", "Time in line.", 0.1, 1, 10);
    wait.observeNanos(TimeUnit.MILLISECONDS.toNanos(500));
    wait.observeNanos(TimeUnit.SECONDS.toNanos(20));
    assertThat(lines())
        .contains(
            "# TYPE berth_wait_seconds histogram",
            "berth_wait_seconds_bucket{le=\"0.1\"} 0",
            "berth_wait_seconds_bucket{le=\"1.0\"} 1",
            "berth_wait_seconds_bucket{le=\"10.0\"} 1",
            "berth_wait_seconds_bucket{le=\"+Inf\"} 2",
            "berth_wait_seconds_count 2",
            "berth_wait_seconds_sum 20.5");
  }

  @Test
  void looksAtGaugesWhenItIsAsked() {
    AtomicInteger room = new AtomicInteger(3);
    metrics.gauges(List.of(ROOM), readings -> readings.set(ROOM, room.get()));
    assertThat(lines()).contains("# TYPE berth_room gauge", "berth_room 3.0");
    room.set(2);
    assertThat(lines()).contains("berth_room 2.0");
  }

  @Test
  void leavesOutWhatIsNotKnown() {
    metrics.gauges(
        List.of(ROOM, HEAT), readings -> readings.set(HEAT, 61, "0", "A \"fast\" one\\with\nall"));
    assertThat(lines())
        .contains("berth_heat_celsius{gpu=\"0\",model=\"A \\\"fast\\\" one\\\\with\\nall\"} 61.0")
        .noneMatch(line -> line.contains("berth_room"));
  }

  @Test
  void oneLookThatFailsLeavesTheOthersAlone() {
    metrics.gauges(
        List.of(ROOM),
        readings -> {
          throw new IllegalStateException("the disk hangs");
        });
    metrics.gauges(List.of(HEAT), readings -> readings.set(HEAT, 61, "0", ""));
    assertThat(lines())
        .contains("berth_heat_celsius{gpu=\"0\",model=\"\"} 61.0")
        .noneMatch(line -> line.contains("berth_room"));
  }

  @Test
  void aLookThatSetsAStrangeGaugeHasFailed() {
    metrics.gauges(List.of(ROOM), readings -> readings.set(HEAT, 61, "0", ""));
    assertThat(lines()).noneMatch(line -> line.contains("berth_heat"));
  }

  @Test
  void tellsOfItsProcess() {
    assertThat(lines())
        .anyMatch(line -> line.startsWith("process_start_time_seconds "))
        .anyMatch(line -> line.startsWith("process_resident_memory_bytes "))
        .anyMatch(line -> line.startsWith("process_open_fds "))
        .anyMatch(line -> line.startsWith("jvm_memory_used_bytes{area=\"heap\"}"))
        .anyMatch(line -> line.startsWith("jvm_threads_current "));
  }

  @Test
  void speaksTheFormatThatIsAskedFor() {
    metrics.counter("berth_runs_ended_total", "Runs that are over.");
    assertThat(metrics.render(null).contentType()).startsWith("text/plain; version=0.0.4");
    assertThat(metrics.render("").contentType()).startsWith("text/plain; version=0.0.4");
    Scrape open = metrics.render("application/openmetrics-text; version=1.0.0,text/plain;q=0.5");
    assertThat(open.contentType()).startsWith("application/openmetrics-text; version=1.0.0");
    assertThat(text(open)).endsWith("# EOF\n");
  }

  @Test
  void whoWantsProtobufGetsText() {
    Scrape scrape =
        metrics.render(
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily;"
                + " encoding=delimited");
    assertThat(scrape.contentType()).startsWith("text/plain");
    assertThat(text(scrape)).contains("process_start_time_seconds");
  }

  @Test
  void twoOfThemShareNothing() {
    metrics.counter("berth_runs_ended_total", "Runs that are over.").increment();
    Metrics other = new Metrics();
    other.counter("berth_runs_ended_total", "Runs that are over.");
    assertThat(text(other.render("")).lines()).contains("berth_runs_ended_total 0.0");
  }

  @Test
  void refusesANameThatIsTakenOrBreaksTheRules() {
    metrics.gauges(List.of(ROOM), readings -> {});
    assertThatThrownBy(() -> metrics.gauges(List.of(ROOM), readings -> {}))
        .hasMessageContaining("berth_room");
    assertThatThrownBy(() -> metrics.counter("berth_runs", "Runs."))
        .hasMessage("berth_runs is a counter, so its name ends with _total");
    assertThatThrownBy(() -> metrics.histogram("berth_wait", "Time.", 1))
        .hasMessage("berth_wait measures time, so its name ends with _seconds");
    assertThatThrownBy(() -> Gauge.of("room", "Room."))
        .hasMessage("room is no name of a metric of Berth");
  }

  private List<String> lines() {
    return text(metrics.render("")).lines().toList();
  }

  private static String text(Scrape scrape) {
    return new String(scrape.body(), UTF_8);
  }
}
