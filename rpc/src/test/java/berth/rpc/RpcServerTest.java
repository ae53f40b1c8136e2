package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.reflection.v1.ServerReflectionGrpc;
import io.grpc.reflection.v1.ServerReflectionRequest;
import io.grpc.reflection.v1.ServerReflectionResponse;
import io.grpc.reflection.v1.ServiceResponse;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RpcServerTest {
  private static final Address EVERYWHERE = new Address("0.0.0.0", 0);

  @Test
  void refusesToBeOpenToEveryone() {
    assertThatThrownBy(() -> RpcServer.listenOn(EVERYWHERE).start())
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessage(
            "refusing to listen on 0.0.0.0:0 without --insecure: calls are neither encrypted nor"
                + " authenticated");
  }

  @Test
  void isOpenToEveryoneWhenToldTo() {
    try (var server = RpcServer.listenOn(EVERYWHERE).insecureBeyondLoopback(true).start()) {
      assertThat(server.address().port()).isPositive();
    }
  }

  @Test
  void notBeingToldToBeOpenChangesNothing() {
    var builder = RpcServer.listenOn(EVERYWHERE).insecureBeyondLoopback(false);
    assertThatThrownBy(builder::start).isInstanceOf(BerthException.class);
  }

  @Test
  void saysThatItsPortIsTaken() {
    try (var first = Loopback.servingNothing()) {
      assertThatThrownBy(() -> RpcServer.listenOn(first.address()).start())
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
          .hasMessage("cannot listen on " + first.address() + ": Address already in use");
    }
  }

  @Test
  void canListenAgainWhereAServerWasClosed() {
    Address address;
    try (var first = Loopback.servingNothing()) {
      address = first.address();
    }
    try (var second = RpcServer.listenOn(address).start()) {
      assertThat(second.address()).isEqualTo(address);
    }
  }

  @Test
  void endsStreamsWhenItIsClosed() {
    var streamsEnded = new AtomicBoolean();
    RpcServer.listenOn(new Address("127.0.0.1", 0))
        .endStreams(() -> streamsEnded.set(true))
        .start()
        .close();
    assertThat(streamsEnded).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "berth.v1.GpuService"})
  void saysThatItServes(String service) {
    try (var loopback = Loopback.servingNothing()) {
      var answer =
          HealthGrpc.newBlockingStub(loopback.channel())
              .check(HealthCheckRequest.newBuilder().setService(service).build());
      assertThat(answer.getStatus()).isEqualTo(ServingStatus.SERVING);
    }
  }

  @Test
  void tellsThoseWhoWatchItsHealthOfATroubleAndOfItsEnd() throws Exception {
    var problem = new AtomicReference<Optional<String>>(Optional.empty());
    try (var loopback =
        Loopback.serving(
            new GpuServiceImplBase() {}, server -> server.healthyUnless(problem::get))) {
      var health = new Reader<HealthCheckRequest, HealthCheckResponse>();
      HealthGrpc.newStub(loopback.channel()).watch(HealthCheckRequest.getDefaultInstance(), health);
      assertThat(health.next().getStatus()).isEqualTo(ServingStatus.SERVING);
      problem.set(Optional.of("a thread has ended"));
      assertThat(health.next().getStatus()).isEqualTo(ServingStatus.NOT_SERVING);
      problem.set(Optional.empty());
      assertThat(health.next().getStatus()).isEqualTo(ServingStatus.SERVING);
    }
  }

  @Test
  void listsItsServicesByReflection() {
    try (var loopback = Loopback.servingNothing()) {
      var reader = new Reader<ServerReflectionRequest, ServerReflectionResponse>();
      var requests = ServerReflectionGrpc.newStub(loopback.channel()).serverReflectionInfo(reader);
      requests.onNext(ServerReflectionRequest.newBuilder().setListServices("").build());
      requests.onCompleted();

      assertThat(reader.rest())
          .flatExtracting(answer -> answer.getListServicesResponse().getServiceList())
          .extracting(ServiceResponse::getName)
          .contains("berth.v1.GpuService", "grpc.health.v1.Health");
    }
  }
}
