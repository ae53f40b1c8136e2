package berth.server.reservation;

import berth.fuzz.Inputs;
import berth.fuzz.ShownText;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Lifetime;
import berth.v1.Owner;
import berth.v1.RenewRequest;
import berth.v1.ReserveRequest;
import berth.v1.WaitTime;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import java.time.Duration;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class ReserveRequestFuzzTest {
  private static final ReservationMessages MESSAGES = new ReservationMessages("gpu1");

  static Stream<byte[]> seeds() {
    com.google.protobuf.Duration hour =
        com.google.protobuf.Duration.newBuilder().setSeconds(3600).build();
    ReserveRequest request =
        ReserveRequest.newBuilder()
            .setGpus(GpuRequest.newBuilder().setCount(2).setModel("A100"))
            .setPortCount(3)
            .setWait(WaitTime.newBuilder().setAtMost(hour))
            .setLifetime(Lifetime.newBuilder().setDuration(hour))
            .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
            .setPurpose("digits")
            .setRequestId("r1")
            .build();
    return Stream.of(
            request,
            request.toBuilder()
                .setGpus(
                    GpuRequest.newBuilder()
                        .setExactly(GpuSet.newBuilder().addIds("0"))
                        .setMinFreeMemoryBytes(1 << 30))
                .setLifetime(Lifetime.newBuilder().setRenewals(hour))
                .build(),
            request.toBuilder().setLifetime(Lifetime.newBuilder().setProcess(1)).build(),
            request.toBuilder().setLifetime(Lifetime.newBuilder().setStream(true)).build(),
            RenewRequest.newBuilder().setReservationId("1").setLease(hour).build())
        .map(MessageLite::toByteArray);
  }

  @MethodSource("seeds")
  @FuzzTest
  void isReadOrRefusedWithASentence(byte[] data) throws Exception {
    try {
      RenewRequest renewal = RenewRequest.parseFrom(data);
      Inputs.accepted(
          () ->
              MESSAGES
                  .duration(renewal.hasLease(), renewal.getLease())
                  .map(berth.server.reservation.Lifetime::checkLease));
      ReserveRequest request = ReserveRequest.parseFrom(data);
      Optional<ReservationRequest> accepted = Inputs.accepted(() -> MESSAGES.request(request));
      accepted.ifPresent(
          reservation -> {
            ShownText.check("purpose", reservation.purpose());
            ShownText.check("owner", reservation.owner().toString());
          });
      // Timers count nanoseconds.
      accepted.flatMap(ReservationRequest::waitAtMost).ifPresent(Duration::toNanos);
    } catch (InvalidProtocolBufferException e) {
      // gRPC refuses it.
    }
  }
}
