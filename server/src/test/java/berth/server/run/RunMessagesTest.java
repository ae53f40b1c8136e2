package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.Mount;
import berth.v1.RunCodeRequest;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import java.util.Collections;
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
  void aRequestOfWhichTooMuchWouldStayInMemoryIsRefused() {
    RunCodeRequest.Builder request = RunCodeRequest.newBuilder();
    request.getSourceBuilder().setFileName("x").addAllInterpreter(Collections.nCopies(200_000, ""));
    refused(request.build(), "200000 words of the interpreter asked, 16 are allowed");
    UnknownFieldSet unknown =
        UnknownFieldSet.newBuilder()
            .addField(
                5000,
                UnknownFieldSet.Field.newBuilder()
                    .addLengthDelimited(ByteString.copyFrom(new byte[1 << 20]))
                    .build())
            .build();
    RunCodeRequest.Builder nested = RunCodeRequest.newBuilder();
    nested.getLimitsBuilder().setUnknownFields(unknown);
    assertThatThrownBy(() -> RunRequest.of(nested.build()))
        .hasMessageContaining("bytes, 262144 are allowed");
  }

  @Test
  void aRunHasNoMoreMountsThanItMay() {
    RunCodeRequest.Builder request = RunCodeRequest.newBuilder();
    for (int i = 0; i < 64; i++) {
      request.addMounts(Mount.newBuilder().setSource("/data").setTarget("/data" + i));
    }
    assertThat(RunMessages.spec(request.build()).mounts()).hasSize(64);
    request.addMounts(Mount.newBuilder().setSource("/data").setTarget("/data64"));
    refused(request.build(), "65 mounts asked, 64 are allowed");
  }

  @Test
  void noMoreGpusAreNamedThanAServerCanHave() {
    RunCodeRequest.Builder request = RunCodeRequest.newBuilder();
    for (int i = 0; i < 256; i++) {
      request.getGpusBuilder().getExactlyBuilder().addIds("GPU-" + i);
    }
    assertThat(RunMessages.spec(request.build()).gpus().orElseThrow().ids()).hasSize(256);
    request.getGpusBuilder().getExactlyBuilder().addIds("GPU-256");
    refused(request.build(), "257 GPUs given, 256 are allowed");
  }

  private static void refused(RunCodeRequest request, String message) {
    assertThatThrownBy(() -> RunRequest.of(request))
        .hasMessage(message)
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
