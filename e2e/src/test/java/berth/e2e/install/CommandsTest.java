package berth.e2e.install;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How the three commands start, refuse and stop. */
class CommandsTest {
  @TempDir private Path folder;

  @ParameterizedTest
  @ValueSource(strings = {"berth", "berthd", "berth-registry"})
  void saysItsVersion(String command) {
    Result result = Installed.run(Installed.command(command), "--version");

    assertThat(result.out()).matches(command + " \\d+\\.\\d+\\.\\d+\n");
    assertThat(result.exitCode()).isZero();
  }

  @ParameterizedTest
  @ValueSource(strings = {"berth", "berthd", "berth-registry"})
  void refusesAnUnknownOptionByName(String command) {
    Result result = Installed.run(Installed.command(command), "--no-such-option");

    assertThat(result.err())
        .isEqualTo(
            command + ": Unknown option: '--no-such-option'\nTry '" + command + " --help'.\n");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @ParameterizedTest
  @ValueSource(strings = {"berthd", "berth-registry"})
  void stopsInOrderOnSigterm(String command) throws Exception {
    try (Daemon daemon = Daemon.start(folder, command)) {
      assertThat(daemon.stop()).isZero();
      assertThat(daemon.log()).endsWith(" - stopping\n");
    }
  }

  @Test
  void leavesNoFileOfTheSimulationBehind() throws Exception {
    try (Daemon berthd = Daemon.start(folder, "berthd", "--simulate-gpus", "2")) {
      Path description = Path.of(berthd.log().replaceFirst("(?s).*described by (\\S+);.*", "$1"));
      assertThat(description).exists();
      berthd.stop();
      assertThat(description.getParent()).doesNotExist();
    }
  }

  @Test
  void aServerWithoutADriverServesZeroGpusAndTheReason() {
    try (Daemon berthd = Daemon.start(folder, "berthd", "--nvml-library", "libno-such-nvml.so")) {
      Result result = Installed.berth("gpus", "--server", berthd.address());

      assertThat(result.exitCode()).isZero();
      assertThat(result.out().lines())
          .hasSize(2)
          .last()
          .asString()
          .contains("no NVIDIA driver on this machine")
          .contains("libno-such-nvml.so");
    }
  }

  @Test
  void refusesAnUnknownKeyOfTheConfigurationByNameAndLine() throws Exception {
    Path config = Files.writeString(folder.resolve("berthd.yaml"), "name: gpu01\nlisten-on: x\n");
    Result result = Installed.run(Installed.command("berthd"), "--config", config.toString());

    assertThat(result.err())
        .startsWith(
            "berthd: "
                + config
                + ":2: unknown key 'listen-on'; known keys: advertise, allow-mount,");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @ParameterizedTest
  @ValueSource(strings = {"berthd", "berth-registry"})
  void willNotListenBeyondLoopbackUnlessTold(String command) {
    Result result = Installed.run(Installed.command(command), "--listen", "0.0.0.0:0");

    assertThat(result.err()).contains("refusing to listen on 0.0.0.0:0").contains("--insecure");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @ParameterizedTest
  @ValueSource(strings = {"berthd", "berth-registry"})
  void theExampleConfigurationNamesEveryOption(String command) throws Exception {
    String help = Installed.run(Installed.command(command), "--help").out();
    String example = Files.readString(Installed.home().resolve("etc/" + command + ".yaml"));

    Stream<String> options =
        help.lines()
            .map(String::trim)
            .filter(line -> line.startsWith("--"))
            .map(line -> line.substring(2).split("[ =,]")[0])
            .filter(option -> !option.equals("config") && !option.equals("stacktrace"));
    assertThat(options)
        .isNotEmpty()
        .allSatisfy(o -> assertThat(example).contains("\n#" + o + ": "));
  }

  @Test
  void theCompletionScriptIsValidBash() throws Exception {
    Result script = Installed.berth("generate-completion");
    Path file = Files.writeString(folder.resolve("completion"), script.out());

    assertThat(script.out()).contains("gpus");
    assertThat(Installed.run("bash", "-n", file.toString()).exitCode()).isZero();
  }
}
