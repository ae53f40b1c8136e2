package berth.metrics;

import io.prometheus.metrics.expositionformats.ExpositionFormatWriter;
import io.prometheus.metrics.expositionformats.ExpositionFormats;
import io.prometheus.metrics.instrumentation.jvm.JvmGarbageCollectorMetrics;
import io.prometheus.metrics.instrumentation.jvm.JvmMemoryMetrics;
import io.prometheus.metrics.instrumentation.jvm.JvmThreadsMetrics;
import io.prometheus.metrics.instrumentation.jvm.ProcessMetrics;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.function.Consumer;

/**
 * All metrics of one process, with those of the process itself: its memory, files, threads and
 * garbage collection. Any thread may call. A name can be given once only.
 */
public final class Metrics {
  private final PrometheusRegistry registry = new PrometheusRegistry();
  private final ExpositionFormats formats = ExpositionFormats.init();

  public Metrics() {
    ProcessMetrics.builder().register(registry);
    JvmMemoryMetrics.builder().register(registry);
    JvmGarbageCollectorMetrics.builder().register(registry);
    JvmThreadsMetrics.builder().register(registry);
  }

  /**
   * A counter without labels, which is shown from now on.
   *
   * @param name ends with {@code _total}
   */
  public Counter counter(String name, String help) {
    return counters(name, help).with();
  }

  /**
   * A counter with labels.
   *
   * @param name ends with {@code _total}
   */
  public Labelled<Counter> counters(String name, String help, String... labels) {
    Gauge.checkName(name);
    if (!name.endsWith("_total")) {
      throw new IllegalArgumentException(name + " is a counter, so its name ends with _total");
    }
    var counter =
        io.prometheus.metrics.core.metrics.Counter.builder()
            .name(name)
            .help(help)
            .labelNames(labels)
            .withoutExemplars()
            .register(registry);
    return values -> new Counter(counter.labelValues(values));
  }

  /**
   * A histogram without labels, which is shown from now on.
   *
   * @param name ends with {@code _seconds}
   * @param bounds the upper bounds of its buckets in seconds, ascending
   */
  public Histogram histogram(String name, String help, double... bounds) {
    return histograms(name, help, List.of(), bounds).with();
  }

  /** As {@link #histogram}, with labels. */
  public Labelled<Histogram> histograms(
      String name, String help, List<String> labels, double... bounds) {
    Gauge.checkName(name);
    if (!name.endsWith("_seconds")) {
      throw new IllegalArgumentException(name + " measures time, so its name ends with _seconds");
    }
    var histogram =
        io.prometheus.metrics.core.metrics.Histogram.builder()
            .name(name)
            .help(help)
            .labelNames(labels.toArray(String[]::new))
            .classicOnly()
            .classicUpperBounds(bounds)
            .withoutExemplars()
            .register(registry);
    return values -> new Histogram(histogram.labelValues(values));
  }

  /**
   * Has gauges read whenever somebody asks.
   *
   * @param gauges all that the look may set
   * @param look sets them; called by whoever calls {@link #render}, also by several at once. If it
   *     fails, none of them is shown
   */
  public void gauges(List<Gauge> gauges, Consumer<Readings> look) {
    registry.register(new GaugeReader(gauges, look));
  }

  /**
   * All metrics as they are now. Looks at the parts of this process, and waits for them as anybody
   * would who asks: do not call it where nobody may wait.
   *
   * @param acceptHeader what the caller wants by HTTP; null or empty for Prometheus' own text
   *     format
   */
  public Scrape render(String acceptHeader) {
    ExpositionFormatWriter wanted = formats.findWriter(acceptHeader);
    // It finds the one for protobuf also where that is left out.
    ExpositionFormatWriter writer =
        wanted.isAvailable() ? wanted : formats.getPrometheusTextFormatWriter();
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    try {
      writer.write(body, registry.scrape());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new Scrape(writer.getContentType(), body.toByteArray());
  }
}
