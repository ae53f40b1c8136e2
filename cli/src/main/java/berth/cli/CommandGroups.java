package berth.cli;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.UsageMessageSpec;

/** Lists the commands of {@code berth --help} in groups, as docker does. */
final class CommandGroups {
  private static final Map<String, List<String>> GROUPS = new LinkedHashMap<>();
  private static final String OTHERS = "Administration";

  static {
    GROUPS.put("Run", List.of("run", "runs", "logs", "attach", "cancel", "cp", "rm"));
    GROUPS.put("Clusters", List.of("cluster", "clusters"));
    GROUPS.put("GPUs", List.of("gpus", "reserve", "reservations", "renew", "release", "lock"));
    GROUPS.put("Servers", List.of("servers", "services"));
  }

  private CommandGroups() {}

  /** Changes the help of {@code berth}, whose commands have all been added. */
  static CommandLine addTo(CommandLine berth) {
    berth.getHelpSectionMap().remove(UsageMessageSpec.SECTION_KEY_COMMAND_LIST_HEADING);
    berth.getHelpSectionMap().put(UsageMessageSpec.SECTION_KEY_COMMAND_LIST, CommandGroups::render);
    CommandLine completion = berth.getSubcommands().get("generate-completion");
    completion
        .getCommandSpec()
        .usageMessage()
        .description("Generate a completion script for bash and zsh.", "")
        .footer("", "Examples:", "  source <(berth generate-completion)");
    return berth;
  }

  private static String render(Help help) {
    Map<String, Help> commands = help.subcommands();
    Set<String> others = new LinkedHashSet<>(commands.keySet());
    GROUPS.values().forEach(others::removeAll);
    int width = commands.keySet().stream().mapToInt(String::length).max().orElse(0);
    StringBuilder text = new StringBuilder();
    GROUPS.forEach((title, names) -> append(text, title, names, commands, width));
    append(text, OTHERS, List.copyOf(others), commands, width);
    return text.toString();
  }

  private static void append(
      StringBuilder text, String title, List<String> names, Map<String, Help> all, int width) {
    List<String> there = names.stream().filter(all::containsKey).toList();
    if (there.isEmpty()) {
      return;
    }
    text.append(String.format("%n%s:%n", title));
    for (String name : there) {
      String[] description = all.get(name).commandSpec().usageMessage().description();
      text.append(String.format("  %-" + width + "s  %s%n", name, description[0]));
    }
  }
}
