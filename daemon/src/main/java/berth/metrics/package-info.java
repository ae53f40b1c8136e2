/**
 * What this process counts and measures, for Prometheus to read. Only here are Prometheus' own
 * types.
 *
 * <p>Names begin with {@code berth_} and end with their unit; what only grows ends with {@code
 * _total}. What can be looked at is looked at when somebody asks ({@link berth.metrics.Gauge});
 * only what would be over by then is recorded where it happens ({@link berth.metrics.Counter},
 * {@link berth.metrics.Histogram}).
 */
package berth.metrics;
