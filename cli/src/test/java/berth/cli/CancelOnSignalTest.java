package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class CancelOnSignalTest {
  private final List<String> happened = new ArrayList<>();
  private BerthException failure;
  private final CancelOnSignal cancel =
      new CancelOnSignal(
          new CancelOnSignal.Running() {
            @Override
            public String name() {
              return "mnist";
            }

            @Override
            public void cancel(boolean force) {
              if (failure != null) {
                throw failure;
              }
              happened.add(force ? "killed" : "asked");
            }
          },
          happened::add);

  @Test
  void theFirstAsksAndTheSecondKills() {
    assertThat(cancel.exitCode()).isEmpty();
    cancel.signalled(15);
    assertThat(cancel.exitCode()).hasValue(143);

    cancel.signalled(2);
    assertThat(cancel.exitCode()).hasValue(143);
    assertThat(happened)
        .containsExactly("cancelling; Ctrl-C again kills", "asked", "killing mnist", "killed");
  }

  @Test
  void whatHasEndedIsNotBlamed() {
    failure = new BerthException(Reason.CONFLICT, "it has ended");
    cancel.signalled(2);

    assertThat(happened).containsExactly("cancelling; Ctrl-C again kills");
    assertThat(cancel.exitCode()).hasValue(130);
  }

  @Test
  void saysWhatCannotBeCancelled() {
    failure = new BerthException(Reason.UNAVAILABLE, "nobody answers");
    cancel.signalled(2);

    assertThat(happened).last().isEqualTo("cannot cancel mnist: nobody answers; Ctrl-C leaves it");
  }
}
