package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.v1.GpuRequest;
import berth.v1.Owner;
import berth.v1.ReserveRequest;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What stands in logs and tables is plain text. */
class ReservationTextTest {
  private static final String FORGED = "x\n2026-01-01T00:00:00.000Z INFO berthd forged";

  static Stream<Consumer<ReserveRequest.Builder>> forgeries() {
    return Stream.of(
        request -> request.setPurpose(FORGED),
        request -> request.setPurpose("\u009b2J"),
        request -> request.setRequestId(FORGED),
        request -> request.setOwner(Owner.newBuilder().setUser(FORGED)),
        request -> request.setOwner(Owner.newBuilder().setHost("\u2028")));
  }

  @ParameterizedTest
  @MethodSource("forgeries")
  void hiddenCharactersAreRefused(Consumer<ReserveRequest.Builder> forge) {
    ReserveRequest.Builder request =
        ReserveRequest.newBuilder().setGpus(GpuRequest.newBuilder().setCount(1));
    forge.accept(request);
    assertThatThrownBy(() -> new ReservationMessages("gpu01").request(request.build()))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("must be plain text");
  }
}
