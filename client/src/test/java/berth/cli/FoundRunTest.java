package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.RegistryClient;
import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.Server;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class FoundRunTest {
  private final FakeRegistry registry = new FakeRegistry();
  private final FakeRuns runs = new FakeRuns();
  private final Server gpu01 = FakeRegistry.server("gpu01", runs.address(), 1, 1);
  private final Server gone = FakeRegistry.server("gone", new Address("127.0.0.1", 1), 1, 1);
  private final Servers servers = Servers.of(RegistryClient.of(List.of(registry.address())));

  @BeforeEach
  void haveOneRun() {
    runs.runs =
        ListRunsResponse.newBuilder().addRuns(Run.newBuilder().setRunId(FakeRuns.ID)).build();
  }

  @AfterEach
  void close() {
    servers.close();
    runs.close();
    registry.close();
  }

  @Test
  void findsARunByTheBeginningOfItsNameWhenAllServersAnswer() {
    registry.servers = List.of(gpu01);

    assertThat(find("run-6b")).isEqualTo(FakeRuns.ID);
  }

  @Test
  void findsARunByItsWholeNameThoughAServerIsSilent() {
    registry.servers = List.of(gone, gpu01);

    assertThat(find(FakeRuns.ID)).isEqualTo(FakeRuns.ID);
  }

  @Test
  void doesNotGuessByTheBeginningOfANameWhileAServerIsSilent() {
    registry.servers = List.of(gone, gpu01);

    assertThatThrownBy(() -> find("run-6b"))
        .hasMessage(
            "'run-6b' may begin the ID of another run than run-6b1fd2c9aa too: use the whole"
                + " ID; no answer from gone: no berthd at 127.0.0.1:1: Connection refused");
  }

  private String find(String text) {
    try (FoundRun found = FoundRun.find(servers, text)) {
      return found.id();
    }
  }
}
