package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.RegistryClient;
import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import berth.v1.Server;
import com.google.protobuf.Timestamp;
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

  @Test
  void findsARunByItsName() {
    registry.servers = List.of(gpu01);
    runs.runs = runs(run("run-1", "bert", 1, false), run("run-2", "gpt", 2, false));

    assertThat(find("gpt")).isEqualTo("run-2");
    assertThatThrownBy(() -> find("gp"))
        .hasMessage("there is no run 'gp'; 'berth runs --all' lists them");
  }

  @Test
  void anIdIsStrongerThanAName() {
    registry.servers = List.of(gpu01);
    runs.runs = runs(run("run-1", "run-2", 1, false), run("run-23", "x", 2, true));

    assertThat(find("run-2")).isEqualTo("run-23");
  }

  @Test
  void ofSeveralWithANameTheUnfinishedOneIsMeantElseTheLast() {
    registry.servers = List.of(gpu01);
    runs.runs =
        runs(
            run("run-1", "bert", 1, true),
            run("run-2", "bert", 2, false),
            run("run-4", "bert", 4, true),
            run("run-3", "bert", 3, true));

    assertThat(find("bert")).isEqualTo("run-2");

    runs.runs = runs.runs.toBuilder().removeRuns(1).build();
    assertThat(find("bert")).isEqualTo("run-4");
  }

  @Test
  void doesNotGuessAmongUnfinishedRunsWithAName() {
    registry.servers = List.of(gpu01);
    runs.runs =
        runs(
            run("run-1", "bert", 1, false),
            run("run-2", "bert", 2, true),
            run("run-3", "bert", 3, false));

    assertThatThrownBy(() -> find("bert"))
        .hasMessage("several unfinished runs have the name 'bert'; use an ID: run-3, run-1");
  }

  @Test
  void doesNotTakeAnEndedRunByItsNameWhileAServerIsSilent() {
    registry.servers = List.of(gone, gpu01);
    runs.runs = runs(run("run-1", "bert", 1, true), run("run-2", "gpt", 2, false));

    assertThat(find("gpt")).isEqualTo("run-2");
    assertThatThrownBy(() -> find("bert"))
        .hasMessageStartingWith(
            "there may be a newer run 'bert' than run-1: use an ID; no answer from gone: ");
  }

  private static ListRunsResponse runs(Run... runs) {
    return ListRunsResponse.newBuilder().addAllRuns(List.of(runs)).build();
  }

  private static Run run(String id, String name, long accepted, boolean ended) {
    return Run.newBuilder()
        .setRunId(id)
        .setRequest(RunCodeRequest.newBuilder().setName(name))
        .setAcceptedAt(Timestamp.newBuilder().setSeconds(accepted))
        .setState(ended ? RunState.RUN_STATE_ENDED : RunState.RUN_STATE_RUNNING)
        .build();
  }

  private String find(String text) {
    try (FoundRun found = FoundRun.find(servers, text)) {
      return found.id();
    }
  }
}
