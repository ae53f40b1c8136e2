package berth.command;

import berth.rpc.BerthException;
import berth.text.YamlValue;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;

/** A YAML file of lines such as {@code listen: 127.0.0.1:18812}. */
public final class SettingsFile {
  /**
   * A value and where it stands.
   *
   * @param line from 1
   */
  public record Entry(String value, int line) {}

  private SettingsFile() {}

  /**
   * Reads {@code file}.
   *
   * @param known the keys that it may have
   * @throws BerthException if the file cannot be read, is not a flat mapping, or has another key
   */
  public static Map<String, Entry> read(Path file, SortedSet<String> known) {
    Map<String, Entry> entries = new LinkedHashMap<>();
    Optional<YamlValue> root = YamlValue.read(file, "configuration file");
    if (root.isEmpty()) {
      return entries;
    }
    List<YamlValue.Pair> pairs =
        root.get()
            .pairs()
            .orElseThrow(() -> root.get().invalid("expected lines of the form 'option: value'"));
    for (YamlValue.Pair pair : pairs) {
      YamlValue place = pair.key();
      String key = place.scalar().orElseThrow(() -> place.invalid("a key must be text"));
      if (!known.contains(key)) {
        throw place.invalid("unknown key '" + key + "'; known keys: " + String.join(", ", known));
      }
      String value =
          pair.value()
              .scalar()
              .orElseThrow(() -> place.invalid("'" + key + "' takes a single value"));
      if (entries.put(key, new Entry(value, place.line())) != null) {
        throw place.invalid("'" + key + "' is given twice");
      }
    }
    return entries;
  }
}
