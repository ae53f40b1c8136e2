package berth.command;

import berth.command.SettingsFile.Entry;
import berth.rpc.BerthException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
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

  private final Path file;
  private final List<String> args;
  private final Map<String, Entry> entries;

  /**
   * Reads {@code file} for the options of {@code command} that {@code args} leave out.
   *
   * @throws BerthException if the file cannot be read, is not a flat mapping, or has a key that is
   *     no option
   */
  ConfigFile(Path file, CommandSpec command, List<String> args) {
    this.file = file;
    this.args = args;
    TreeSet<String> known = new TreeSet<>();
    for (OptionSpec option : command.options()) {
      String name = option.longestName();
      boolean onlyOnCommandLine =
          name.equals(OPTION) || name.equals(CommandRunner.STACK_TRACE) || !name.startsWith("--");
      if (!option.usageHelp() && !option.versionHelp() && !onlyOnCommandLine) {
        known.add(name.substring(2));
      }
    }
    this.entries = SettingsFile.read(file, known);
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
        .filter(entry -> entry.value().equals(value))
        .map(entry -> file + ":" + entry.line());
  }

  private Optional<Entry> find(ArgSpec argument) {
    return argument instanceof OptionSpec option
        ? Optional.ofNullable(entries.get(option.longestName().substring(2)))
        : Optional.empty();
  }
}
