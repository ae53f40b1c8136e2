package berth.metrics;

import io.prometheus.metrics.model.registry.MetricType;
import io.prometheus.metrics.model.registry.MultiCollector;
import io.prometheus.metrics.model.snapshots.MetricFamilyDescriptor;
import io.prometheus.metrics.model.snapshots.MetricMetadata;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads some gauges in one look. If that fails they are absent, and the others are not. */
final class GaugeReader implements MultiCollector {
  private static final Logger log = LoggerFactory.getLogger(GaugeReader.class);

  private final List<Gauge> gauges;
  private final Consumer<Readings> look;
  private volatile boolean failed;

  GaugeReader(List<Gauge> gauges, Consumer<Readings> look) {
    this.gauges = List.copyOf(gauges);
    this.look = look;
  }

  @Override
  public List<MetricFamilyDescriptor> getMetricFamilyDescriptors() {
    return gauges.stream()
        .map(
            gauge ->
                MetricFamilyDescriptor.of(
                    MetricType.GAUGE,
                    new MetricMetadata(gauge.name(), gauge.help()),
                    gauge.labels()))
        .toList();
  }

  @Override
  public MetricSnapshots collect() {
    try {
      Readings readings = new Readings(gauges);
      look.accept(readings);
      MetricSnapshots snapshots = readings.snapshots();
      failed = false;
      return snapshots;
    } catch (RuntimeException e) {
      // Once, not at every scrape.
      if (!failed) {
        log.warn(
            "{} and the values read with it are unknown: {}", gauges.get(0).name(), e.toString());
      }
      failed = true;
      return new MetricSnapshots();
    }
  }
}
