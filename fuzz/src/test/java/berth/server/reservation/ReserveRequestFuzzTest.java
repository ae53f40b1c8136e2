package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.ShownText;
import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuHealth.State;
import berth.host.gpu.GpuSample;
import berth.host.lock.GpuWish;
import berth.rpc.BerthException;
import berth.rpc.Reason;
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
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class ReserveRequestFuzzTest {
  private static final ReservationMessages MESSAGES = new ReservationMessages("gpu1");
  private static final GpuSample SAMPLE = sample(Optional.empty());
  private static final GpuSample UNREADABLE = sample(Optional.of("the driver does not answer"));

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
      accepted.flatMap(ReservationRequest::gpus).ifPresent(ReserveRequestFuzzTest::choose);
      // Timers count nanoseconds.
      accepted.flatMap(ReservationRequest::waitAtMost).ifPresent(Duration::toNanos);
    } catch (InvalidProtocolBufferException e) {
      // gRPC refuses it.
    }
  }

  /** As a server chooses that has a healthy GPU, a sick one and one that was never seen. */
  private static void choose(GpuWish wish) {
    boolean possible;
    try {
      possible = wish.checkAgainst(SAMPLE);
    } catch (BerthException e) {
      assertThat(e.reason()).isEqualTo(Reason.INVALID);
      ShownText.check("refusal", e.getMessage());
      possible = false;
    }
    assertThat(wish.checkAgainst(UNREADABLE)).isFalse();
    List<Gpu> usable = wish.usable(SAMPLE);
    assertThat(SAMPLE.gpus()).containsAll(usable);
    assertThat(usable).allMatch(gpu -> gpu.health().healthy());
    usable.forEach(wish::hasRoom);
    if (possible) {
      assertThat(wish.needed(usable.size())).isBetween(0, SAMPLE.gpus().size());
      assertThat(wish.trouble(SAMPLE).isEmpty())
          .isEqualTo(!usable.isEmpty() && usable.size() >= wish.needed(usable.size()));
    }
    for (GpuSample sample : List.of(SAMPLE, UNREADABLE)) {
      wish.trouble(sample).ifPresent(trouble -> ShownText.check("trouble", trouble));
      ShownText.check("refusal", wish.refusal(sample).getMessage());
    }
  }

  private static GpuSample sample(Optional<String> problem) {
    return new GpuSample(
        Optional.of(new GpuSample.Taken(Instant.EPOCH, 0)),
        Optional.empty(),
        Optional.empty(),
        false,
        problem,
        List.of(
            gpu(0, "GPU-a", Optional.of("NVIDIA A100"), new GpuHealth(State.HEALTHY, "")),
            gpu(1, "GPU-b", Optional.of("NVIDIA A100"), new GpuHealth(State.HEALTHY, "")),
            gpu(2, "GPU-c", Optional.of("NVIDIA H100"), new GpuHealth(State.SICK, "XID 48")),
            gpu(3, "", Optional.empty(), new GpuHealth(State.LOST, "it never answered"))),
        List.of());
  }

  private static Gpu gpu(int index, String uuid, Optional<String> model, GpuHealth health) {
    return new Gpu(
        index,
        uuid,
        Optional.empty(),
        model,
        model.map(known -> new Gpu.Memory(80L << 30, 1L << 30, 79L << 30)),
        Optional.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        Optional.empty(),
        OptionalLong.empty(),
        OptionalLong.empty(),
        Optional.empty(),
        health);
  }
}
