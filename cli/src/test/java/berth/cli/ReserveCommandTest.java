package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.command.CommandRunner;
import berth.fake.FakeRegistry;
import berth.rpc.Address;
import berth.v1.Server;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class ReserveCommandTest {
  @ParameterizedTest
  @CsvSource({
    "--process=42, --process requires --server",
    "--request-id=mine, --request-id requires --server",
  })
  void whatOnlyOneServerKnowsNeedsThatServer(String option, String why) {
    try (FakeRegistry registry = new FakeRegistry()) {
      ReserveCommand command = new ReserveCommand();
      new CommandLine(command).parseArgs("--registry", registry.address().toString(), option);

      assertThatThrownBy(command::call).hasMessage(why);
    }
  }

  @Test
  void whatServersSayCannotReachTheTerminalAsAnEscapeSequence() {
    PrintStream before = System.err;
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    try (FakeRegistry registry = new FakeRegistry()) {
      Server gone = FakeRegistry.server("g\033[2J", new Address("127.0.0.1", 1), 1, 1);
      registry.find(FakeRegistry.candidate(gone, true));
      System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));

      CommandRunner.run(new BerthCommand(), "reserve", "--registry", registry.address().toString());
    } finally {
      System.setErr(before);
    }
    assertThat(err.toString(StandardCharsets.UTF_8))
        .startsWith("berth: g?[2J: no berthd at 127.0.0.1:1: ")
        .doesNotContain("\033");
  }
}
