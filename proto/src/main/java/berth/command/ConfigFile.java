package berth.command;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import picocli.CommandLine.IDefaultValueProvider;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/**
 * A YAML file with the options that the command line leaves out: {@code listen: 127.0.0.1:18812} is
 * {@code --listen 127.0.0.1:18812}. What the command line says wins.
 */
final class ConfigFile implements IDefaultValueProvider {
  static final String OPTION = "--config";

  private record Entry(String value, int line) {}

  private final Path file;
  private final List<String> args;
  private final Map<String, Entry> entries = new LinkedHashMap<>();

  /**
   * Reads {@code file} for the options of {@code command} that {@code args} leave out.
   *
   * @throws BerthException if the file cannot be read, is not a flat mapping, or has a key that is
   *     no option
   */
  ConfigFile(Path file, CommandSpec command, List<String> args) {
    this.file = file;
    this.args = args;
    Optional<Node> root = parse();
    if (root.isEmpty()) {
      return;
    }
    if (!(root.get() instanceof MappingNode mapping)) {
      throw invalid(line(root.get()), "expected lines of the form 'option: value'");
    }
    TreeSet<String> known = new TreeSet<>();
    for (OptionSpec option : command.options()) {
      String name = option.longestName();
      boolean onlyOnCommandLine =
          name.equals(OPTION) || name.equals(CommandRunner.STACK_TRACE) || !name.startsWith("--");
      if (!option.usageHelp() && !option.versionHelp() && !onlyOnCommandLine) {
        known.add(name.substring(2));
      }
    }
    for (NodeTuple tuple : mapping.getValue()) {
      int line = line(tuple.getKeyNode());
      String key =
          scalar(tuple.getKeyNode()).orElseThrow(() -> invalid(line, "a key must be text"));
      if (!known.contains(key)) {
        throw invalid(line, "unknown key '" + key + "'; known keys: " + String.join(", ", known));
      }
      String value =
          scalar(tuple.getValueNode())
              .orElseThrow(() -> invalid(line, "'" + key + "' takes a single value"));
      if (entries.put(key, new Entry(value, line)) != null) {
        throw invalid(line, "'" + key + "' is given twice");
      }
    }
  }

  @Override
  public String defaultValue(ArgSpec argument) {
    // To picocli a flag means the opposite of its default: one that is given must have none here.
    return isGivenFlag(argument) ? null : find(argument).map(Entry::value).orElse(null);
  }

  private boolean isGivenFlag(ArgSpec argument) {
    return argument instanceof OptionSpec option
        && option.arity().max() == 0
        && Arrays.stream(option.names()).anyMatch(args::contains);
  }

  /** The place of an option's value in this file, such as {@code berthd.yaml:3}, if it is there. */
  Optional<String> place(ArgSpec argument, String value) {
    return find(argument)
        .filter(entry -> entry.value.equals(value))
        .map(entry -> file + ":" + entry.line);
  }

  private Optional<Entry> find(ArgSpec argument) {
    return argument instanceof OptionSpec option
        ? Optional.ofNullable(entries.get(option.longestName().substring(2)))
        : Optional.empty();
  }

  private Optional<Node> parse() {
    LoadSettings settings =
        LoadSettings.builder().setLabel(file.toString()).setAllowDuplicateKeys(true).build();
    try {
      return new Compose(settings).composeString(Files.readString(file));
    } catch (MarkedYamlEngineException e) {
      throw invalid(
          e.getProblemMark().map(mark -> mark.getLine() + 1).orElse(1),
          "not YAML: " + e.getProblem());
    } catch (YamlEngineException e) {
      throw invalid(1, "not YAML: " + e.getMessage());
    } catch (NoSuchFileException e) {
      throw new BerthException(Reason.INVALID, "there is no configuration file " + file, e);
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID, "cannot read the configuration file " + file + ": " + e.getMessage(), e);
    }
  }

  private BerthException invalid(int line, String what) {
    return new BerthException(Reason.INVALID, file + ":" + line + ": " + what);
  }

  private static int line(Node node) {
    return node.getStartMark().map(mark -> mark.getLine() + 1).orElse(1);
  }

  private static Optional<String> scalar(Node node) {
    return node instanceof ScalarNode scalar ? Optional.of(scalar.getValue()) : Optional.empty();
  }
}
