package berth.e2e.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The numbers of another and of Berth, side by side: for each row the medians of all rounds. */
final class Comparison {
  private enum Unit {
    PER_SECOND("1/s"),
    MEGABYTES_PER_SECOND("MB/s"),
    MILLIS("ms");

    private final String symbol;

    Unit(String symbol) {
      this.symbol = symbol;
    }
  }

  private record Row(Unit unit, List<Double> other, List<Double> berth) {
    // How many times better Berth is.
    double ratio() {
      return unit == Unit.MILLIS ? median(other) / median(berth) : median(berth) / median(other);
    }
  }

  private final String other;
  private final Map<String, Row> rows = new LinkedHashMap<>();

  /**
   * @param other who Berth is compared with
   */
  Comparison(String other) {
    this.other = other;
  }

  void perSecond(String title, double other, double berth) {
    add(title, Unit.PER_SECOND, other, berth);
  }

  void megabytesPerSecond(String title, double other, double berth) {
    add(title, Unit.MEGABYTES_PER_SECOND, other, berth);
  }

  void millis(String title, double other, double berth) {
    add(title, Unit.MILLIS, other, berth);
  }

  double berth(String title) {
    return median(rows.get(title).berth);
  }

  double ratio(String title) {
    return rows.get(title).ratio();
  }

  void print() {
    System.out.printf("%-45s %10s %10s %9s%n", "", other, "Berth", "ratio");
    rows.forEach(
        (title, row) ->
            System.out.printf(
                "%-40s %4s %10s %10s %9s%n",
                title,
                row.unit.symbol,
                number(median(row.other)),
                number(median(row.berth)),
                number(row.ratio())));
  }

  /** Three digits are more than such measurements are worth. */
  static String number(double value) {
    int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
    return String.format(Locale.ROOT, "%,." + decimals + "f", value);
  }

  /** Of times in nanoseconds, in milliseconds. */
  static double percentile(int percent, long[] nanos) {
    long[] sorted = nanos.clone();
    Arrays.sort(sorted);
    return sorted[(sorted.length * percent - 1) / 100] / 1e6;
  }

  private void add(String title, Unit unit, double other, double berth) {
    Row row = rows.computeIfAbsent(title, t -> new Row(unit, new ArrayList<>(), new ArrayList<>()));
    row.other.add(other);
    row.berth.add(berth);
  }

  private static double median(List<Double> values) {
    return values.stream().sorted().toList().get((values.size() - 1) / 2);
  }
}
