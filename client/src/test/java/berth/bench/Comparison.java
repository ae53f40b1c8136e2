package berth.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The numbers of the seed and of Berth, side by side: for each row the medians of all rounds. */
final class Comparison {
  private enum Unit {
    PER_SECOND("1/s"),
    MILLIS("ms");

    private final String symbol;

    Unit(String symbol) {
      this.symbol = symbol;
    }
  }

  private record Row(Unit unit, List<Double> seed, List<Double> berth) {
    // How many times better Berth is.
    double ratio() {
      return unit == Unit.PER_SECOND ? median(berth) / median(seed) : median(seed) / median(berth);
    }
  }

  private final Map<String, Row> rows = new LinkedHashMap<>();

  void perSecond(String title, double seed, double berth) {
    add(title, Unit.PER_SECOND, seed, berth);
  }

  void millis(String title, double seed, double berth) {
    add(title, Unit.MILLIS, seed, berth);
  }

  double berth(String title) {
    return median(rows.get(title).berth);
  }

  double ratio(String title) {
    return rows.get(title).ratio();
  }

  void print() {
    System.out.printf("%-44s %10s %10s %9s%n", "", "seed", "Berth", "ratio");
    rows.forEach(
        (title, row) ->
            System.out.printf(
                "%-40s %3s %10s %10s %9s%n",
                title,
                row.unit.symbol,
                number(median(row.seed)),
                number(median(row.berth)),
                number(row.ratio())));
  }

  /** Three digits are more than such measurements are worth. */
  static String number(double value) {
    int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
    return String.format(Locale.ROOT, "%,." + decimals + "f", value);
  }

  private void add(String title, Unit unit, double seed, double berth) {
    Row row = rows.computeIfAbsent(title, t -> new Row(unit, new ArrayList<>(), new ArrayList<>()));
    row.seed.add(seed);
    row.berth.add(berth);
  }

  private static double median(List<Double> values) {
    return values.stream().sorted().toList().get((values.size() - 1) / 2);
  }
}
