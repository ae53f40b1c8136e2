package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.call.ManyServers;
import berth.client.call.ManyServers.Answer;
import berth.fake.FakeRegistry;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ServersTest {
  @Test
  void whatAServerFailedWithIsShownWithoutItsEscapeSequences() {
    Answer<String> answer =
        new Answer<>(
            FakeRegistry.server("gpu01", new Address("127.0.0.1", 1), 1, 1),
            Optional.empty(),
            Optional.of(new BerthException(Reason.UNAVAILABLE, "full\033[2J")));

    assertThat(ManyServers.silent(List.of(answer))).isEqualTo("; no answer from gpu01: full?[2J");
  }
}
