package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import picocli.CommandLine;

/** What {@code --help} prints on a terminal of 80 columns. */
class HelpTest {
  static Stream<String> commands() {
    return all(berth()).map(line -> line.getCommandSpec().qualifiedName());
  }

  @Test
  void listsTheCommandsInGroups() {
    String help = berth().getUsageMessage();

    assertThat(help)
        .containsSubsequence(
            "\nRun:\n  run ",
            "\nClusters:\n  cluster ",
            "\nGPUs:\n  gpus ",
            "\nServers:\n  servers ",
            "\nAdministration:\n  server ",
            "\nExamples:\n")
        .doesNotContain("supervise");
    assertThat(berth().getSubcommands().keySet())
        .filteredOn(name -> !name.equals("supervise"))
        .allSatisfy(name -> assertThat(help).contains("\n  " + name + " "));
  }

  @ParameterizedTest
  @MethodSource("commands")
  void everyLineFitsEightyColumns(String command) {
    assertThat(help(command).lines()).allSatisfy(line -> assertThat(line).hasSizeLessThan(81));
  }

  @ParameterizedTest
  @MethodSource("commands")
  void everyCommandHasAnExample(String command) {
    assertThat(help(command)).containsPattern("\nExamples:\n  (berth |source <\\(berth )");
  }

  private static String help(String command) {
    List<CommandLine> found =
        all(berth()).filter(line -> line.getCommandSpec().qualifiedName().equals(command)).toList();
    return found.get(0).getUsageMessage();
  }

  private static CommandLine berth() {
    return CommandGroups.addTo(
        new CommandLine(new BerthCommand()).setUsageHelpLongOptionsMaxWidth(30));
  }

  private static Stream<CommandLine> all(CommandLine line) {
    return Stream.concat(
        Stream.of(line).filter(one -> !one.getCommandSpec().usageMessage().hidden()),
        line.getSubcommands().values().stream().flatMap(HelpTest::all));
  }
}
