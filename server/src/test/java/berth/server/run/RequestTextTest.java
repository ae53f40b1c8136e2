package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Owner;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What stands in logs and tables is plain text. */
class RequestTextTest {
  private static final String FORGED = "x\n2026-01-01T00:00:00.000Z INFO berthd forged";

  static Stream<Consumer<RunCodeRequest.Builder>> forgeries() {
    return Stream.of(
        request -> request.setName(FORGED),
        request -> request.setName("\u009b2J"),
        request -> request.setName("\u202etxt.exe"),
        request -> request.setRequestId(FORGED),
        request -> request.setService(FORGED),
        request -> request.setImage(FORGED),
        request -> request.setReservationId(FORGED),
        request -> request.setBundle(FORGED),
        request -> request.setSource(Source.newBuilder().setFileName("\u202eyp.x")),
        request -> request.setOwner(Owner.newBuilder().setUser(FORGED)),
        request -> request.setOwner(Owner.newBuilder().setHost(FORGED)),
        request -> request.setGpus(GpuRequest.newBuilder().setCount(1).setModel(FORGED)),
        request ->
            request.setGpus(
                GpuRequest.newBuilder().setExactly(GpuSet.newBuilder().addIds(FORGED))));
  }

  @ParameterizedTest
  @MethodSource("forgeries")
  void aRunWithHiddenCharactersInWhatPeopleReadIsRefused(Consumer<RunCodeRequest.Builder> forge) {
    RunCodeRequest.Builder request = RunCodeRequest.newBuilder().setImage("busybox:1.35");
    forge.accept(request);
    assertThatThrownBy(() -> RunMessages.spec(request.build()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessageContaining("must be plain text")
        .satisfies(e -> assertThat(PlainText.clean(e.getMessage())).isEqualTo(e.getMessage()));
  }

  @Test
  void whoCancelsIsPlainText() {
    assertThatThrownBy(() -> RunMessages.owner(Owner.newBuilder().setUser(FORGED).build()))
        .hasMessageStartingWith("the owner's user name must be plain text");
  }

  @Test
  void programsMayHaveWordsOfSeveralLines() {
    RunCodeRequest request =
        RunCodeRequest.newBuilder()
            .setImage("busybox:1.35")
            .addCommand("sh")
            .addCommand("echo a\necho b\t\033")
            .putEnv("TEXT", "a\nb")
            .build();
    assertThat(RunMessages.spec(request).command()).contains("echo a\necho b\t\033");
  }
}
