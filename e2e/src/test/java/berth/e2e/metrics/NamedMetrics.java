package berth.e2e.metrics;

import berth.text.YamlValue;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Which metrics the alerts and the dashboard of {@code monitoring/} name. */
final class NamedMetrics {
  // In this order: a brace may stand in a string, and a bracket has a duration.
  private static final Pattern NO_NAMES =
      Pattern.compile(
          "\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'|\\{[^}]*}|\\[[^\\]]*]"
              + "|\\b(?:by|without|on|ignoring|group_left|group_right)\\s*\\([^)]*\\)"
              + "|\\b[0-9][0-9a-z.]*");
  private static final Pattern STRING = Pattern.compile("\"(?:\\\\.|[^\"\\\\])*\"");
  // A name that an opening parenthesis follows is a function's.
  private static final Pattern NAME = Pattern.compile("[a-zA-Z_:][a-zA-Z0-9_:]*+(?!\\s*\\()");
  private static final Set<String> WORDS =
      Set.of("and", "or", "unless", "bool", "offset", "group_left", "group_right", "inf", "nan");
  // Prometheus' own.
  private static final Set<String> OF_PROMETHEUS = Set.of("up");

  private NamedMetrics() {}

  /** Those in an expression of PromQL. */
  static Set<String> inExpression(String expression) {
    // Strings go first: what they contain may look like anything.
    String plain = STRING.matcher(expression).replaceAll("\"\"");
    String rest = NO_NAMES.matcher(plain).replaceAll(" ");
    Set<String> names = new TreeSet<>();
    for (Matcher name = NAME.matcher(rest); name.find(); ) {
      if (!WORDS.contains(name.group().toLowerCase(Locale.ROOT))
          && !OF_PROMETHEUS.contains(name.group())) {
        names.add(name.group());
      }
    }
    return names;
  }

  /** Those in a file of alerts, by alert. */
  static Map<String, Set<String>> inAlerts(Path file) {
    YamlValue root = YamlValue.read(file, "alerts").orElseThrow();
    return children(root, "groups").stream()
        .flatMap(group -> children(group, "rules").stream())
        .collect(
            Collectors.toMap(
                rule -> child(rule, "alert").text("alert"),
                rule -> inExpression(child(rule, "expr").text("expr"))));
  }

  /** Those in a dashboard, by the expression. */
  static Map<String, Set<String>> inDashboard(Path file) throws IOException {
    List<String> expressions = new ArrayList<>();
    collect(JsonParser.parseString(Files.readString(file)), expressions);
    return expressions.stream()
        .distinct()
        .collect(Collectors.toMap(expression -> expression, NamedMetrics::inExpression));
  }

  private static void collect(JsonElement element, List<String> expressions) {
    if (element instanceof JsonArray array) {
      array.forEach(item -> collect(item, expressions));
    } else if (element instanceof JsonObject object) {
      object
          .entrySet()
          .forEach(
              entry -> {
                if (entry.getKey().equals("expr")) {
                  expressions.add(entry.getValue().getAsString());
                } else {
                  collect(entry.getValue(), expressions);
                }
              });
    }
  }

  private static List<YamlValue> children(YamlValue map, String key) {
    return child(map, key).items().orElseThrow();
  }

  private static YamlValue child(YamlValue map, String key) {
    return map.pairs().orElseThrow().stream()
        .filter(pair -> pair.key().text("key").equals(key))
        .map(YamlValue.Pair::value)
        .findFirst()
        .orElseThrow(() -> new AssertionError("line " + map.line() + " has no " + key));
  }
}
