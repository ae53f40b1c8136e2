package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import org.junit.jupiter.api.Test;

class RunMessagesTest {
  @Test
  void anOffsetThatNoOutputHasIsRefused() {
    AttachRunRequest request = AttachRunRequest.newBuilder().setFromOffset(-1).build();
    assertThatThrownBy(() -> RunMessages.offset(request))
        .hasMessage(
            "output from byte 18446744073709551615 asked, the largest offset is"
                + " 9223372036854775807")
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID));
  }

  @Test
  void anOffsetIsIgnoredWithoutOutput() {
    AttachRunRequest request =
        AttachRunRequest.newBuilder().setFromOffset(-1).setNoOutput(true).build();
    assertThat(RunMessages.offset(request)).isEmpty();
  }
}
