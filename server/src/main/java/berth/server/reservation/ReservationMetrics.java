package berth.server.reservation;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuSample;
import berth.metrics.Counter;
import berth.metrics.Gauge;
import berth.metrics.Histogram;
import berth.metrics.Labelled;
import berth.metrics.Metrics;
import berth.metrics.Readings;
import berth.server.reservation.Overview.Use;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/** The metrics of reservations, and of what GPUs are used for. Any thread may call. */
final class ReservationMetrics {
  private static final double[] WAIT_BOUNDS = {
    .01, .1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 21600, 86400
  };
  private static final String UNHEALTHY = "unhealthy";

  private static final Gauge GPUS =
      Gauge.of(
          "berth_gpus",
          "GPUs by state: free, reserved (by Berth), locked (by others), used (without a"
              + " reservation), unhealthy.",
          "state");
  private static final Gauge STATE =
      Gauge.of(
          "berth_gpu_state",
          "1 for the state that a GPU is in, 0 for the others.",
          "gpu",
          "uuid",
          "model",
          "state");
  private static final Gauge HELD =
      Gauge.of("berth_reservations_held", "Reservations that hold GPUs or ports.");
  private static final Gauge WAITING =
      Gauge.of("berth_reservations_waiting", "Requests waiting for GPUs.");
  private static final Gauge OLDEST_WAIT =
      Gauge.of(
          "berth_reservation_oldest_wait_seconds",
          "Longest wait of a queued request; 0 if none waits.");
  private static final Gauge DRAINING =
      Gauge.of("berth_draining", "1 if this server grants nothing at present, else 0.");

  static final List<Gauge> GAUGES = List.of(GPUS, STATE, HELD, WAITING, OLDEST_WAIT, DRAINING);

  private final Counter granted;
  private final Histogram wait;
  private final Labelled<Counter> ended;

  /**
   * @param look reads the gauges, by way of {@link #read}
   */
  ReservationMetrics(Metrics metrics, Consumer<Readings> look) {
    granted = metrics.counter("berth_reservations_granted_total", "Reservations granted.");
    wait =
        metrics.histogram(
            "berth_reservation_wait_seconds",
            "Time in the queue of granted reservations.",
            WAIT_BOUNDS);
    ended =
        metrics.counters(
            "berth_reservations_ended_total",
            "Ended reservations by cause. expired: the lease was not renewed."
                + " keeper_killed: the locks are lost.",
            "reason");
    for (EndReason why : EndReason.values()) {
      ended.with(why.label());
    }
    metrics.gauges(GAUGES, look);
  }

  void granted(long waitedNanos) {
    granted.increment();
    wait.observeNanos(waitedNanos);
  }

  void ended(EndReason why) {
    ended.with(why.label()).increment();
  }

  static void read(Overview overview, GpuSample sample, long nowNanos, Readings readings) {
    Map<String, Integer> count = new TreeMap<>(Map.of(UNHEALTHY, 0));
    for (Use use : Use.values()) {
      count.put(label(use), 0);
    }
    Map<Integer, Use> uses = overview.uses();
    for (Gpu gpu : sample.gpus()) {
      String state =
          gpu.health().healthy() ? label(uses.getOrDefault(gpu.index(), Use.FREE)) : UNHEALTHY;
      count.merge(state, 1, Integer::sum);
      for (String other : count.keySet()) {
        readings.set(
            STATE,
            other.equals(state),
            Integer.toString(gpu.index()),
            gpu.uuid(),
            gpu.name().orElse(""),
            other);
      }
    }
    count.forEach((state, gpus) -> readings.set(GPUS, gpus, state));
    readings.set(HELD, overview.reservations().size());
    readings.set(WAITING, overview.waiting().size());
    long oldest =
        overview.waiting().stream()
            .mapToLong(waiting -> nowNanos - waiting.sinceNanos())
            .max()
            .orElse(0);
    readings.set(OLDEST_WAIT, oldest / 1e9);
    readings.set(DRAINING, overview.draining());
  }

  private static String label(Use use) {
    return use.name().toLowerCase(Locale.ROOT);
  }
}
