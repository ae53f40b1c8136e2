package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Server;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlacementNotesTest {
  private final Server server = FakeRegistry.server("gpu01", new Address("127.0.0.1", 1), 1, 1);

  @Test
  void aRunThatIsPassedOnHasNoNameUntilItIsAcceptedAgain() {
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    RunView view = new RunView(new ByteArrayOutputStream(), err, false, RunView.Detail.ALL);
    PlacementNotes notes = new PlacementNotes(view::unlessQuiet, view::forgetRun);

    view.accept(FakeRuns.accepted());
    notes.passed(server, new BerthException(Reason.UNAVAILABLE, "gpu01 drains"));

    assertThat(view.runId()).isEmpty();
    notes.placed(server, true);
    assertThat(err.toString(StandardCharsets.UTF_8))
        .isEqualTo(
            "berth: gpu01 does not take it: gpu01 drains\n"
                + "berth: no server has room now; queued at gpu01\n");
    view.accept(FakeRuns.accepted());
    assertThat(view.runId()).isEqualTo(FakeRuns.ID);
  }

  @Test
  void saysOnceWhatSeveralServersSay() {
    List<String> said = new ArrayList<>();
    PlacementNotes notes = new PlacementNotes(said::add, () -> {});

    notes.passed(server, new BerthException(Reason.EXHAUSTED, "full"));
    notes.passed(other("gpu02"), new BerthException(Reason.EXHAUSTED, "drains"));
    notes.passed(other("gpu03"), new BerthException(Reason.EXHAUSTED, "full"));
    notes.passed(server, new BerthException(Reason.EXHAUSTED, "full"));
    assertThat(said).isEmpty();
    notes.placed(other("gpu04"), true);

    assertThat(said)
        .containsExactly(
            "gpu01, gpu03 do not take it: full",
            "gpu02 does not take it: drains",
            "no server has room now; queued at gpu04");
  }

  private static Server other(String name) {
    return FakeRegistry.server(name, new Address("127.0.0.1", 1), 1, 1);
  }
}
