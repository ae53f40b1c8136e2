package berth.text;

import berth.rpc.BerthException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A mapping of a YAML file whose keys are known. Whatever is wrong with it is a {@link
 * BerthException} that names the place and the key.
 */
public final class YamlSection {
  private final String owner;
  private final Map<String, YamlValue.Pair> pairs = new LinkedHashMap<>();

  private YamlSection(String owner) {
    this.owner = owner;
  }

  /**
   * @param owner whose keys these are, as in {@code of service 'a'}; empty for the file itself
   * @throws BerthException if it is no mapping, has an unknown key, or has one twice
   */
  public static YamlSection of(String owner, YamlValue value, List<String> known) {
    return of(owner, value, known, unknown -> "");
  }

  /**
   * The same with more help for those who err.
   *
   * @param hint what to say of an unknown key, in words that go on after its name; may be empty
   */
  public static YamlSection of(
      String owner, YamlValue value, List<String> known, UnaryOperator<String> hint) {
    YamlSection section = new YamlSection(owner);
    String what = owner.isEmpty() ? "this file" : "the value" + owner;
    for (YamlValue.Pair pair : value.pairs(what, "key: value")) {
      String key = pair.key().text("a key" + owner);
      if (!known.contains(key)) {
        throw pair.key()
            .invalid(
                "unknown key '"
                    + key
                    + "'"
                    + owner
                    + hint.apply(key)
                    + "; known keys: "
                    + String.join(", ", known));
      }
      if (section.pairs.put(key, pair) != null) {
        throw pair.key().invalid(section.what(key) + " is given twice");
      }
    }
    return section;
  }

  /** One in which nothing is said. */
  public static YamlSection empty(String owner) {
    return new YamlSection(owner);
  }

  /** How messages name a key: {@code 'image' of service 'a'}. */
  public String what(String key) {
    return "'" + key + "'" + owner;
  }

  /** The value of a key, if it is there. */
  public Optional<YamlValue> get(String key) {
    return Optional.ofNullable(pairs.get(key)).map(YamlValue.Pair::value);
  }

  /** The place of a key, if it is there. */
  public Optional<YamlValue> place(String key) {
    return Optional.ofNullable(pairs.get(key)).map(YamlValue.Pair::key);
  }

  /** What the single value of a key means, if it is there. */
  public <T> Optional<T> value(String key, Function<String, T> converter) {
    return get(key)
        .map(
            value -> {
              if (value.isNothing()) {
                throw value.invalid(what(key) + " has no value");
              }
              return value.converted(what(key), converter);
            });
  }

  /** The words of a list, if the key is there. */
  public Optional<List<String>> list(String key) {
    return list(key, (place, word) -> word);
  }

  /**
   * What the words of a list mean, if the key is there.
   *
   * @param converter is given each word and its place
   */
  public <T> Optional<List<T>> list(String key, BiFunction<YamlValue, String, T> converter) {
    return get(key)
        .map(
            value -> {
              List<T> list = new ArrayList<>();
              for (YamlValue each :
                  value
                      .items()
                      .orElseThrow(
                          () -> value.invalid(what(key) + " takes a list such as [a, b]"))) {
                list.add(converter.apply(each, each.text("a word in " + what(key))));
              }
              return list;
            });
  }

  /** What the lines of a mapping mean; none if the key is not there. */
  public <T> Map<String, T> map(
      String key, Function<String, String> names, Function<String, T> converter) {
    Map<String, T> map = new LinkedHashMap<>();
    get(key)
        .ifPresent(
            value -> {
              for (YamlValue.Pair pair : value.pairs(what(key), "name: value")) {
                String name = pair.key().converted(what(key), names);
                if (map.put(name, pair.value().converted(what(key), converter)) != null) {
                  throw pair.key().invalid("'" + name + "' is given twice in " + what(key));
                }
              }
            });
    return map;
  }
}
