package berth.server.gpu;

import static berth.host.gpu.FakeGpus.healthy;
import static berth.host.gpu.FakeGpus.lost;
import static berth.host.gpu.FakeGpus.needing;
import static org.assertj.core.api.Assertions.assertThat;

import berth.host.gpu.FakeGpus;
import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.RecoveryAction;
import berth.metrics.Metrics;
import berth.metrics.ShownMetrics;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class GpuMetricsTest {
  private static final String A = "{gpu=\"0\",model=\"A100\",uuid=\"GPU-a\"} ";

  private final AtomicLong nanos = new AtomicLong();
  private final FakeGpus source = new FakeGpus();
  private final GpuMonitor monitor =
      new GpuMonitor(
          source,
          new GpuMonitor.Timing(Duration.ofSeconds(1), Duration.ofSeconds(5)),
          nanos::get,
          Clock.systemUTC());
  private final Metrics metrics = new Metrics();

  @BeforeEach
  void report() {
    GpuMetrics.show(monitor, metrics);
  }

  @Test
  void showsWhatTheDriverSaysInBaseUnits() {
    source.reports(talkative());
    monitor.sampleOnce();
    nanos.addAndGet(Duration.ofMillis(1500).toNanos());
    assertThat(lines())
        .contains(
            "berth_gpu_driver_up 1.0",
            "berth_gpu_sample_age_seconds 1.5",
            "berth_gpu_utilization_ratio" + A + "0.37",
            "berth_gpu_memory_used_bytes" + A + "1024.0",
            "berth_gpu_memory_total_bytes" + A + "4096.0",
            "berth_gpu_temperature_celsius" + A + "61.0",
            "berth_gpu_power_watts" + A + "212.5",
            "berth_gpu_power_limit_watts" + A + "400.0");
  }

  @Test
  void showsWhichHealthEveryGpuHas() {
    source.reports(talkative(), lost(1, "GPU-b"));
    monitor.sampleOnce();
    assertThat(lines())
        .filteredOn(line -> line.startsWith("berth_gpu_health"))
        .containsExactlyInAnyOrder(
            health("0", "healthy", "A100", "GPU-a", 1),
            health("0", "sick", "A100", "GPU-a", 0),
            health("0", "lost", "A100", "GPU-a", 0),
            health("0", "unknown", "A100", "GPU-a", 0),
            health("1", "healthy", "", "GPU-b", 0),
            health("1", "sick", "", "GPU-b", 0),
            health("1", "lost", "", "GPU-b", 1),
            health("1", "unknown", "", "GPU-b", 0));
  }

  @Test
  void showsWhatEveryGpuNeeds() {
    source.reports(healthy(0, "GPU-a"), needing(1, "GPU-b", RecoveryAction.DRAIN_AND_RESET));
    monitor.sampleOnce();
    assertThat(lines())
        .contains(health("1", "sick", "", "GPU-b", 1))
        .filteredOn(line -> line.startsWith("berth_gpu_recovery_action") && line.endsWith(" 1.0"))
        .containsExactlyInAnyOrder(
            "berth_gpu_recovery_action{action=\"none\",gpu=\"0\",model=\"\",uuid=\"GPU-a\"} 1.0",
            "berth_gpu_recovery_action{action=\"drain_and_reset\",gpu=\"1\",model=\"\",uuid=\"GPU-b\"}"
                + " 1.0");
  }

  @Test
  void whatTheDriverDoesNotTellIsAbsent() {
    source.reports(healthy(0, "GPU-a"));
    monitor.sampleOnce();
    assertThat(lines())
        .allMatch(
            line ->
                line.matches("berth_gpu_(driver_up|sample_age_seconds|health|recovery_action).*"));
  }

  @Test
  void whatTheDriverSaidBeforeItFellSilentIsAbsentToo() {
    source.reports(talkative());
    monitor.sampleOnce();
    nanos.addAndGet(Duration.ofSeconds(6).toNanos());
    monitor.checkForStall();
    assertThat(lines())
        .contains("berth_gpu_driver_up 0.0", health("0", "unknown", "A100", "GPU-a", 1))
        .noneMatch(line -> line.startsWith("berth_gpu_temperature"));
  }

  @Test
  void aGpuThatIsGoneIsGone() {
    source.reports(talkative(), healthy(1, "GPU-b"));
    monitor.sampleOnce();
    source.reports(healthy(1, "GPU-b"));
    monitor.sampleOnce();
    assertThat(lines()).isNotEmpty().noneMatch(line -> line.contains("GPU-a"));
  }

  @Test
  void saysThatNothingIsKnownBeforeTheFirstSample() {
    assertThat(lines()).containsExactly("berth_gpu_driver_up 0.0");
  }

  private List<String> lines() {
    return ShownMetrics.lines(metrics);
  }

  private static String health(String gpu, String health, String model, String uuid, int value) {
    return String.format(
        "berth_gpu_health{gpu=\"%s\",health=\"%s\",model=\"%s\",uuid=\"%s\"} %d.0",
        gpu, health, model, uuid, value);
  }

  private static Gpu talkative() {
    return new Gpu(
        0,
        "GPU-a",
        Optional.empty(),
        Optional.of("A100"),
        Optional.of(new Gpu.Memory(4096, 1024, 3072)),
        Optional.of(new Gpu.Utilization(37, 5)),
        OptionalInt.of(61),
        OptionalInt.of(212_500),
        OptionalInt.of(400_000),
        Optional.empty(),
        OptionalLong.empty(),
        OptionalLong.empty(),
        Optional.empty(),
        GpuHealth.HEALTHY);
  }
}
