package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Where the registry comes from. */
class RegistryOptionTest {
  @TempDir private Path folder;
  private final Map<String, String> variables = new HashMap<>();

  @Command
  static final class AnyCommand {
    @Mixin private final RegistryOption registry;

    AnyCommand(RegistryOption registry) {
      this.registry = registry;
    }
  }

  @BeforeEach
  void keepOutOfTheHomeFolder() {
    variables.put("XDG_CONFIG_HOME", folder.toString());
  }

  @Test
  void theOptionWinsOverTheVariable() {
    variables.put("BERTH_REGISTRY", "b:2");

    RegistryOption option = parse("--registry", "a,[::1]:7");

    assertThat(option.named()).contains(List.of(new Address("a", 18811), new Address("::1", 7)));
    assertThat(option.given()).isTrue();
  }

  @Test
  void theVariableWinsOverTheFiles() throws IOException {
    variables.put("BERTH_REGISTRY", "b:2");
    own("registry: c");

    assertThat(parse().named()).contains(List.of(new Address("b", 2)));
    assertThat(parse().given()).isFalse();
  }

  @Test
  void onesOwnFileWinsOverThatOfTheSystem() throws IOException {
    system("registry: d");
    assertThat(parse().named()).contains(List.of(new Address("d", 18811)));

    own("registry: c:3,e");
    assertThat(parse().named()).contains(List.of(new Address("c", 3), new Address("e", 18811)));
  }

  @Test
  void onesOwnFileIsInTheHomeFolderThatTheVariableNames() throws IOException {
    variables.remove("XDG_CONFIG_HOME");
    variables.put("HOME", folder.toString());
    Files.createDirectories(folder.resolve(".config/berth"));
    Files.writeString(folder.resolve(".config/berth/config.yaml"), "registry: c:3\n");

    assertThat(parse().named()).contains(List.of(new Address("c", 3)));
  }

  @Test
  void noneMeansNone() throws IOException {
    own("registry: c");

    assertThat(parse("--registry", "none").named()).contains(List.of());
    assertThat(parse("--registry", "none").find()).isEmpty();
    assertThatThrownBy(() -> parse("--registry", "none").require())
        .hasMessage("this command requires a registry, but it is set to 'none'");
  }

  @Test
  void nothingSaidIsNothingNamed() throws IOException {
    variables.put("BERTH_REGISTRY", "");
    system("# nothing yet");

    assertThat(parse().named()).isEmpty();
  }

  @Test
  void aMistakeInAFileIsNamedWithItsPlace() throws IOException {
    Path file = own("registry: a\nserver: b");

    assertThatThrownBy(() -> parse().named())
        .hasMessage(file + ":2: unknown key 'server'; known keys: registry");
  }

  private RegistryOption parse(String... args) {
    RegistryOption option = new RegistryOption(variables::get, folder.resolve("berth.yaml"));
    new CommandLine(new AnyCommand(option)).parseArgs(args);
    return option;
  }

  private Path own(String text) throws IOException {
    Files.createDirectories(folder.resolve("berth"));
    return Files.writeString(folder.resolve("berth/config.yaml"), text + "\n");
  }

  private void system(String text) throws IOException {
    Files.writeString(folder.resolve("berth.yaml"), text + "\n");
  }
}
