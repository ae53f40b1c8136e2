package berth.metrics;

import io.prometheus.metrics.core.datapoints.DistributionDataPoint;

/** How long something takes, each time. Any thread may call. */
public final class Histogram {
  private static final double NANOS = 1e-9;

  private final DistributionDataPoint series;

  Histogram(DistributionDataPoint series) {
    this.series = series;
  }

  public void observeNanos(long nanos) {
    series.observe(nanos * NANOS);
  }
}
