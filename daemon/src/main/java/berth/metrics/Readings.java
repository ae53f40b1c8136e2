package berth.metrics;

import io.prometheus.metrics.model.snapshots.GaugeSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot.GaugeDataPointSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.MetricSnapshot;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What was read of some gauges in one look. For one thread. */
public final class Readings {
  private final Map<Gauge, List<GaugeDataPointSnapshot>> values = new LinkedHashMap<>();

  Readings(List<Gauge> gauges) {
    gauges.forEach(gauge -> values.put(gauge, new ArrayList<>()));
  }

  /**
   * Adds a value. What is not added is not shown: so what is unknown is absent rather than 0.
   *
   * @param labels the values of the gauge's labels, in their order
   */
  public void set(Gauge gauge, double value, String... labels) {
    List<GaugeDataPointSnapshot> known = values.get(gauge);
    if (known == null) {
      throw new IllegalArgumentException(gauge.name() + " is not among those that are read here");
    }
    known.add(
        GaugeDataPointSnapshot.builder()
            .value(value)
            .labels(Labels.of(gauge.labels(), List.of(labels)))
            .build());
  }

  /** As {@link #set}: 1 for what holds, 0 for what does not. */
  public void set(Gauge gauge, boolean holds, String... labels) {
    set(gauge, holds ? 1 : 0, labels);
  }

  MetricSnapshots snapshots() {
    List<MetricSnapshot> snapshots = new ArrayList<>();
    values.forEach(
        (gauge, points) -> {
          if (!points.isEmpty()) {
            GaugeSnapshot.Builder snapshot =
                GaugeSnapshot.builder().name(gauge.name()).help(gauge.help());
            points.forEach(snapshot::dataPoint);
            snapshots.add(snapshot.build());
          }
        });
    return new MetricSnapshots(snapshots);
  }
}
