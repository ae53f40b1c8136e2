package berth.metrics;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;

/** Metrics as Prometheus sees them. */
public final class ShownMetrics {
  private ShownMetrics() {}

  /** The lines with values, such as {@code berth_gpus{state="free"} 2.0}, and no others. */
  public static List<String> lines(Metrics metrics) {
    return new String(metrics.render("").body(), UTF_8)
        .lines()
        .filter(line -> line.startsWith("berth_"))
        .toList();
  }

  /**
   * The value of a series, such as {@code berth_gpus{state="free"}} with its labels by name.
   *
   * @throws AssertionError if it is not shown
   */
  public static double value(Metrics metrics, String series) {
    return lines(metrics).stream()
        .filter(line -> line.startsWith(series + " "))
        .findFirst()
        .map(line -> Double.parseDouble(line.substring(series.length() + 1)))
        .orElseThrow(() -> new AssertionError("no " + series));
  }
}
