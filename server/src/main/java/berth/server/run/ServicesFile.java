package berth.server.run;

import berth.command.DurationConverter;
import berth.command.SizeConverter;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;
import picocli.CommandLine.TypeConversionException;

/** Reads the file in which the administrator names images. Each mistake is told with its place. */
final class ServicesFile {
  private static final List<String> KEYS =
      List.of(
          "aliases",
          "cpus",
          "description",
          "entrypoint",
          "env",
          "image",
          "interpreter",
          "memory",
          "processes",
          "shm",
          "time",
          "ulimits");

  /** As setrlimit(2) has them, in docker's spelling. */
  private static final List<String> ULIMITS =
      List.of(
          "core",
          "cpu",
          "data",
          "fsize",
          "locks",
          "memlock",
          "msgqueue",
          "nice",
          "nofile",
          "nproc",
          "rss",
          "rtprio",
          "rttime",
          "sigpending",
          "stack");

  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._+-]{0,99}");
  private static final Pattern VARIABLE = Pattern.compile("[^=\\s\\p{Cntrl}]+");

  private final Path file;

  ServicesFile(Path file) {
    this.file = file;
  }

  List<Service> read() {
    List<Service> services = new ArrayList<>();
    Optional<Node> root = parse();
    if (root.isEmpty()) {
      return services;
    }
    Node named = new Section("", root.get(), List.of("services")).get("services");
    if (named == null || isNothing(named)) {
      return services;
    }
    Map<String, String> taken = new HashMap<>();
    for (NodeTuple tuple : mapping(named, "'services'", "name: value").getValue()) {
      Node key = tuple.getKeyNode();
      String name = text(key, "the name of a service");
      Service service = service(name, key, tuple.getValueNode());
      List<String> names = new ArrayList<>(service.aliases());
      names.add(name);
      for (String each : names) {
        String owner = taken.put(Services.key(each), name);
        if (owner != null) {
          throw invalid(
              key,
              "the name '"
                  + each
                  + "' of service '"
                  + name
                  + "' is taken by service '"
                  + owner
                  + "'; upper and lower case are the same");
        }
      }
      services.add(service);
    }
    return services;
  }

  private Service service(String name, Node key, Node node) {
    checkName(key, name);
    Section section = new Section(" of service '" + name + "'", node, KEYS);
    Node image = section.get("image");
    if (image == null) {
      throw invalid(key, "service '" + name + "' has no 'image'");
    }
    return new Service(
        name,
        section.list("aliases", this::checkName).orElse(List.of()),
        section.value("image", ServicesFile::image).orElseThrow(),
        section.list("interpreter", (at, word) -> {}).orElse(List.of()),
        section.list("entrypoint", (at, word) -> {}),
        section.map("env", ServicesFile::variable, Function.identity()),
        optional(section.value("memory", ServicesFile::size)),
        optional(section.value("shm", ServicesFile::size)),
        section.value("time", ServicesFile::time),
        optional(section.value("processes", text -> number(text, 1))),
        section
            .value("cpus", ServicesFile::cpus)
            .map(OptionalDouble::of)
            .orElse(OptionalDouble.empty()),
        section.map("ulimits", ServicesFile::ulimit, text -> number(text, -1)),
        section.value("description", Function.identity()).orElse(""));
  }

  private void checkName(Node place, String name) {
    if (!NAME.matcher(name).matches()) {
      throw invalid(
          place, "'" + name + "' is not a name of a service: letters, digits and . _ + - only");
    }
  }

  private static String image(String text) {
    ImageName.problem(text)
        .ifPresent(
            problem -> {
              throw new TypeConversionException(problem);
            });
    return text;
  }

  private static long size(String text) {
    long bytes = new SizeConverter().convert(text);
    if (bytes == 0) {
      throw new TypeConversionException("'" + text + "' is nothing");
    }
    return bytes;
  }

  private static Duration time(String text) {
    Duration time = new DurationConverter().convert(text);
    if (time.isZero()) {
      throw new TypeConversionException("'" + text + "' is no time at all");
    }
    return time;
  }

  private static double cpus(String text) {
    if (!text.matches("\\d{1,5}(\\.\\d{1,9})?") || Double.parseDouble(text) == 0) {
      throw new TypeConversionException("'" + text + "' is not a number of CPUs such as 4 or 1.5");
    }
    return Double.parseDouble(text);
  }

  private static long number(String text, long least) {
    if (!text.matches("-?\\d{1,18}") || Long.parseLong(text) < least) {
      throw new TypeConversionException(
          "'" + text + "' is not a whole number from " + least + " on");
    }
    return Long.parseLong(text);
  }

  private static String variable(String text) {
    if (!VARIABLE.matcher(text).matches()) {
      throw new TypeConversionException("'" + text + "' is not the name of a variable");
    }
    return text;
  }

  private static String ulimit(String text) {
    if (!ULIMITS.contains(text)) {
      throw new TypeConversionException(
          "unknown limit '" + text + "'; known limits: " + String.join(", ", ULIMITS));
    }
    return text;
  }

  private static OptionalLong optional(Optional<Long> value) {
    return value.map(OptionalLong::of).orElse(OptionalLong.empty());
  }

  private Optional<Node> parse() {
    LoadSettings settings =
        LoadSettings.builder().setLabel(file.toString()).setAllowDuplicateKeys(true).build();
    try {
      return new Compose(settings).composeString(Files.readString(file));
    } catch (MarkedYamlEngineException e) {
      int line = e.getProblemMark().map(mark -> mark.getLine() + 1).orElse(1);
      throw invalid(line, "not YAML: " + e.getProblem());
    } catch (YamlEngineException e) {
      throw invalid(1, "not YAML: " + e.getMessage());
    } catch (NoSuchFileException e) {
      throw new BerthException(Reason.INVALID, "there is no file of services " + file, e);
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID, "cannot read the file of services " + file + ": " + e, e);
    }
  }

  private MappingNode mapping(Node node, String what, String form) {
    if (node instanceof MappingNode mapping) {
      return mapping;
    }
    throw invalid(node, what + " takes lines of the form '" + form + "'");
  }

  private String text(Node node, String what) {
    if (node instanceof ScalarNode scalar) {
      return scalar.getValue();
    }
    throw invalid(node, what + " takes a single value");
  }

  private static boolean isNothing(Node node) {
    return node instanceof ScalarNode scalar && scalar.isPlain() && scalar.getValue().isEmpty();
  }

  private BerthException invalid(Node place, String what) {
    return invalid(place.getStartMark().map(mark -> mark.getLine() + 1).orElse(1), what);
  }

  private BerthException invalid(int line, String what) {
    return new BerthException(Reason.INVALID, file + ":" + line + ": " + what);
  }

  private interface Check {
    void check(Node place, String text);
  }

  /** A mapping whose keys are known. */
  private final class Section {
    private final String owner;
    private final Map<String, Node> values = new LinkedHashMap<>();

    Section(String owner, Node node, List<String> known) {
      this.owner = owner;
      String what = owner.isEmpty() ? "this file" : "the value" + owner;
      for (NodeTuple tuple : mapping(node, what, "key: value").getValue()) {
        Node place = tuple.getKeyNode();
        String key = text(place, "a key" + owner);
        if (!known.contains(key)) {
          throw invalid(
              place,
              "unknown key '" + key + "'" + owner + "; known keys: " + String.join(", ", known));
        }
        if (values.put(key, tuple.getValueNode()) != null) {
          throw invalid(place, "'" + key + "'" + owner + " is given twice");
        }
      }
    }

    Node get(String key) {
      return values.get(key);
    }

    <T> Optional<T> value(String key, Function<String, T> converter) {
      Node node = values.get(key);
      if (node == null) {
        return Optional.empty();
      }
      if (isNothing(node)) {
        throw invalid(node, what(key) + " has no value");
      }
      return Optional.of(converted(key, node, converter));
    }

    Optional<List<String>> list(String key, Check check) {
      Node node = values.get(key);
      if (node == null) {
        return Optional.empty();
      }
      if (!(node instanceof SequenceNode sequence)) {
        throw invalid(node, what(key) + " takes a list such as [a, b]");
      }
      List<String> words = new ArrayList<>();
      for (Node each : sequence.getValue()) {
        String word = text(each, "a word in " + what(key));
        check.check(each, word);
        words.add(word);
      }
      return Optional.of(words);
    }

    <T> Map<String, T> map(
        String key, Function<String, String> names, Function<String, T> converter) {
      Map<String, T> map = new LinkedHashMap<>();
      Node node = values.get(key);
      if (node == null) {
        return map;
      }
      for (NodeTuple tuple : mapping(node, what(key), "name: value").getValue()) {
        String name = converted(key, tuple.getKeyNode(), names);
        if (map.put(name, converted(key, tuple.getValueNode(), converter)) != null) {
          throw invalid(tuple.getKeyNode(), "'" + name + "' is given twice in " + what(key));
        }
      }
      return map;
    }

    private <T> T converted(String key, Node node, Function<String, T> converter) {
      try {
        return converter.apply(text(node, what(key)));
      } catch (TypeConversionException e) {
        throw invalid(node, what(key) + ": " + e.getMessage());
      }
    }

    private String what(String key) {
      return "'" + key + "'" + owner;
    }
  }
}
