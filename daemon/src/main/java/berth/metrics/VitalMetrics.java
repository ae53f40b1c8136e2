package berth.metrics;

import berth.rpc.Vitals;
import java.util.List;

/** Shows how many of a daemon's {@link Vitals} fail. */
public final class VitalMetrics {
  private VitalMetrics() {}

  /** To be called once for each {@link Metrics}. */
  public static void show(Vitals vitals, Metrics metrics) {
    Gauge failing =
        Gauge.of(
            "berth_vital_threads_failing",
            "Essential threads that fail or have ended; see the log.");
    metrics.gauges(List.of(failing), readings -> readings.set(failing, vitals.failing()));
  }
}
