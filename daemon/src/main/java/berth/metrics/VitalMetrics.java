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
            "Threads that this process cannot do without and that fail or have ended; the log says"
                + " why.");
    metrics.gauges(List.of(failing), readings -> readings.set(failing, vitals.failing()));
  }
}
