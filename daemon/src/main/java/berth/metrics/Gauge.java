package berth.metrics;

import java.util.List;
import java.util.regex.Pattern;

/**
 * A number that goes up and down, and is looked at when somebody asks.
 *
 * @param help one sentence, for people
 * @param labels the names of what tells its values from one another
 */
public record Gauge(String name, String help, List<String> labels) {
  private static final Pattern NAME = Pattern.compile("berth(_[a-z0-9]+)+");

  public Gauge {
    checkName(name);
    labels = List.copyOf(labels);
  }

  public static Gauge of(String name, String help, String... labels) {
    return new Gauge(name, help, List.of(labels));
  }

  static void checkName(String name) {
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException(name + " is no name of a metric of Berth");
    }
  }
}
