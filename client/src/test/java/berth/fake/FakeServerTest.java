package berth.fake;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.call.RunClient;
import berth.v1.RunCodeRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What tests and benchmarks rely on in the server that they talk to. */
@Timeout(60)
class FakeServerTest {
  @Test
  void startsAProgramForEveryCallWithoutAnIdAndOneForCallsWithTheSame() {
    try (FakeServer server = new FakeServer("gpu01", Duration.ZERO, Duration.ZERO);
        RunClient client = RunClient.of(server.address())) {
      List<String> runs = new ArrayList<>();
      for (String id : List.of("", "", "a", "a")) {
        client.runCode(
            RunCodeRequest.newBuilder().setRequestId(id).setDetached(true).build(),
            event -> runs.add(event.getAccepted().getRunId()));
      }

      assertThat(runs.get(1)).isNotEqualTo(runs.get(0));
      assertThat(runs.get(3)).isEqualTo(runs.get(2));
      assertThat(server.launched).hasSize(3);
    }
  }
}
