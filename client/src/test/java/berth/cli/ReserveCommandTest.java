package berth.cli;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRegistry;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class ReserveCommandTest {
  @ParameterizedTest
  @CsvSource({
    "--process=42, --process is one of a given server's machine: say --server too",
    "--request-id=mine, --request-id is known to one server only: say --server too",
  })
  void whatOnlyOneServerKnowsNeedsThatServer(String option, String why) {
    try (FakeRegistry registry = new FakeRegistry()) {
      ReserveCommand command = new ReserveCommand();
      new CommandLine(command).parseArgs("--registry", registry.address().toString(), option);

      assertThatThrownBy(command::call).hasMessage(why);
    }
  }
}
