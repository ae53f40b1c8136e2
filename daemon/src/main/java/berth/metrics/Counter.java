package berth.metrics;

import io.prometheus.metrics.core.datapoints.CounterDataPoint;

/** A number that only grows. Any thread may call, at the cost of an addition. */
public final class Counter {
  private final CounterDataPoint series;

  Counter(CounterDataPoint series) {
    this.series = series;
  }

  public void increment() {
    series.inc();
  }

  public void add(long amount) {
    series.inc(amount);
  }
}
