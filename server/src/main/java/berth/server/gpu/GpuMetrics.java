package berth.server.gpu;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuSample;
import berth.host.gpu.RecoveryAction;
import berth.metrics.Gauge;
import berth.metrics.Metrics;
import berth.metrics.Readings;
import java.util.List;
import java.util.Locale;

/** What the newest sample says of the GPUs, as metrics. */
public final class GpuMetrics {
  private static final Gauge DRIVER =
      Gauge.of("berth_gpu_driver_up", "1 if the GPUs can be read, else 0.");
  private static final Gauge AGE =
      Gauge.of("berth_gpu_sample_age_seconds", "Time since the GPUs were last read.");
  private static final Gauge HEALTH =
      Gauge.of(
          "berth_gpu_health",
          "1 for the health that a GPU has: healthy, sick, lost or unknown; 0 for the others.",
          "gpu",
          "uuid",
          "model",
          "health");
  private static final Gauge RECOVERY =
      Gauge.of(
          "berth_gpu_recovery_action",
          "1 for the recovery action that a GPU needs: none, inspect, drain_p2p, drain_and_reset,"
              + " gpu_reset or node_reboot; 0 for the others.",
          "gpu",
          "uuid",
          "model",
          "action");
  private static final Gauge UTILIZATION =
      ofGpu(
          "berth_gpu_utilization_ratio",
          "Share of the driver's last sampling period in which the GPU was busy.");
  private static final Gauge MEMORY_USED =
      ofGpu("berth_gpu_memory_used_bytes", "GPU memory in use.");
  private static final Gauge MEMORY_TOTAL =
      ofGpu("berth_gpu_memory_total_bytes", "Total GPU memory.");
  private static final Gauge TEMPERATURE =
      ofGpu("berth_gpu_temperature_celsius", "GPU temperature.");
  private static final Gauge POWER = ofGpu("berth_gpu_power_watts", "Power draw of the GPU.");
  private static final Gauge POWER_LIMIT =
      ofGpu("berth_gpu_power_limit_watts", "Power limit of the GPU.");
  private static final double MILLI = 1e-3;

  private GpuMetrics() {}

  public static void show(GpuMonitor monitor, Metrics metrics) {
    metrics.gauges(
        List.of(
            DRIVER,
            AGE,
            HEALTH,
            RECOVERY,
            UTILIZATION,
            MEMORY_USED,
            MEMORY_TOTAL,
            TEMPERATURE,
            POWER,
            POWER_LIMIT),
        readings -> read(monitor.newest(), monitor.nowNanos(), readings));
  }

  private static void read(GpuSample sample, long nowNanos, Readings readings) {
    readings.set(DRIVER, sample.problem().isEmpty());
    sample.taken().ifPresent(taken -> readings.set(AGE, taken.age(nowNanos).toNanos() / 1e9));
    sample.gpus().forEach(gpu -> read(gpu, readings));
  }

  private static void read(Gpu gpu, Readings readings) {
    String index = Integer.toString(gpu.index());
    String model = gpu.name().orElse("");
    for (GpuHealth.State state : GpuHealth.State.values()) {
      String health = state.name().toLowerCase(Locale.ROOT);
      readings.set(HEALTH, gpu.health().state() == state, index, gpu.uuid(), model, health);
    }
    RecoveryAction needed = gpu.health().action().orElse(RecoveryAction.NONE);
    for (RecoveryAction action : RecoveryAction.values()) {
      String word = action.name().toLowerCase(Locale.ROOT);
      readings.set(RECOVERY, needed == action, index, gpu.uuid(), model, word);
    }
    if (gpu.health().state() == GpuHealth.State.UNKNOWN) {
      // What the driver said before it fell silent is old.
      return;
    }
    String[] labels = {index, gpu.uuid(), model};
    gpu.utilization().ifPresent(used -> readings.set(UTILIZATION, used.gpu() / 100.0, labels));
    gpu.memory()
        .ifPresent(
            memory -> {
              readings.set(MEMORY_USED, memory.used(), labels);
              readings.set(MEMORY_TOTAL, memory.total(), labels);
            });
    gpu.temperatureCelsius().ifPresent(heat -> readings.set(TEMPERATURE, heat, labels));
    gpu.powerMilliwatts().ifPresent(power -> readings.set(POWER, power * MILLI, labels));
    gpu.powerLimitMilliwatts().ifPresent(most -> readings.set(POWER_LIMIT, most * MILLI, labels));
  }

  private static Gauge ofGpu(String name, String help) {
    return Gauge.of(name, help, "gpu", "uuid", "model");
  }
}
