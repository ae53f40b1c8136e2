package berth.server.run;

import berth.text.InvalidValueException;
import berth.text.Values;
import berth.text.YamlSection;
import berth.text.YamlValue;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.regex.Pattern;

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
          "pull",
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

  private final Path file;

  ServicesFile(Path file) {
    this.file = file;
  }

  List<Service> read() {
    List<Service> services = new ArrayList<>();
    Optional<YamlValue> named =
        YamlValue.read(file, "services file")
            .flatMap(root -> YamlSection.of("", root, List.of("services")).get("services"))
            .filter(value -> !value.isNothing());
    if (named.isEmpty()) {
      return services;
    }
    Map<String, String> taken = new HashMap<>();
    for (YamlValue.Pair pair : named.get().pairs("'services'", "name: value")) {
      YamlValue key = pair.key();
      String name = key.text("the name of a service");
      Service service = service(name, key, pair.value());
      List<String> names = new ArrayList<>(service.aliases());
      names.add(name);
      for (String each : names) {
        String owner = taken.put(Services.key(each), name);
        if (owner != null) {
          throw key.invalid(
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

  private static Service service(String name, YamlValue key, YamlValue value) {
    checkedName(key, name);
    YamlSection section = YamlSection.of(" of service '" + name + "'", value, KEYS);
    if (section.get("image").isEmpty()) {
      throw key.invalid("service '" + name + "' has no 'image'");
    }
    return new Service(
        name,
        section.list("aliases", ServicesFile::checkedName).orElse(List.of()),
        section.value("image", ServicesFile::image).orElseThrow(),
        section.value("pull", ServicesFile::pull).orElse(true),
        section.list("interpreter").orElse(List.of()),
        section.list("entrypoint"),
        section.map("env", Values::variable, Function.identity()),
        optional(section.value("memory", Values::positiveSize)),
        optional(section.value("shm", Values::positiveSize)),
        section.value("time", Values::positiveDuration),
        optional(section.value("processes", text -> Values.number(text, 1))),
        section.value("cpus", Values::cpus).map(OptionalDouble::of).orElse(OptionalDouble.empty()),
        section.map("ulimits", ServicesFile::ulimit, text -> Values.number(text, -1)),
        section.value("description", Function.identity()).orElse(""));
  }

  private static String checkedName(YamlValue place, String name) {
    if (!NAME.matcher(name).matches()) {
      throw place.invalid(
          "'" + name + "' is not a name of a service: letters, digits and . _ + - only");
    }
    return name;
  }

  private static String image(String text) {
    ImageName.problem(text)
        .ifPresent(
            problem -> {
              throw new InvalidValueException(problem);
            });
    return text;
  }

  private static boolean pull(String text) {
    return switch (text) {
      case "missing" -> true;
      case "never" -> false;
      default -> throw new InvalidValueException("'" + text + "' is neither missing nor never");
    };
  }

  private static String ulimit(String text) {
    if (!ULIMITS.contains(text)) {
      throw new InvalidValueException(
          "unknown limit '" + text + "'; known limits: " + String.join(", ", ULIMITS));
    }
    return text;
  }

  private static OptionalLong optional(Optional<Long> value) {
    return value.map(OptionalLong::of).orElse(OptionalLong.empty());
  }
}
