package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import berth.v1.ListServersRequest;
import berth.v1.RegistryServiceGrpc;
import berth.v1.RegistryServiceGrpc.RegistryServiceImplBase;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class StatusesTest {
  private static final String PEER = "berthd at gpu01:18812";

  @ParameterizedTest
  @EnumSource
  void everyReasonCrossesTheWireWithItsMessage(Reason reason) {
    String message = "3 GPUs asked, this server has 2: “größer”";

    BerthException received = receivedAfter(new BerthException(reason, message));

    assertThat(received.reason()).isEqualTo(reason);
    assertThat(received).hasMessage(message);
  }

  @Test
  void aMessageTooLongForTheWireIsCutAndKeepsItsReason() {
    BerthException received =
        receivedAfter(new BerthException(Reason.CONFLICT, "“docker” said: " + "界".repeat(20_000)));

    assertThat(received.reason()).isEqualTo(Reason.CONFLICT);
    assertThat(received).hasMessageStartingWith("“docker” said: 界界界").hasMessageEndingWith("界…");
  }

  @ParameterizedTest
  @EnumSource(Status.Code.class)
  void everyCodeHasAReason(Status.Code code) {
    var failure = code.toStatus().withDescription("a proxy said so").asRuntimeException();
    assertThat(Statuses.fromStatus(failure, PEER).reason()).isEqualTo(Statuses.reason(code));
    assertThat(Statuses.reason(code)).isNotNull();
  }

  @ParameterizedTest
  @EnumSource
  void noTwoReasonsShareACode(Reason reason) {
    assertThat(Statuses.reason(Statuses.code(reason))).isEqualTo(reason);
  }

  @Test
  void callersLearnNothingOfAnUnexpectedException() {
    Status status = statusAfter(new IllegalStateException("the password is 'secret'"));

    assertThat(status.getCode()).isEqualTo(Status.Code.INTERNAL);
    assertThat(status.getDescription()).isNull();
    assertThat(Statuses.fromStatus(status.asRuntimeException(), PEER))
        .hasMessage(PEER + " failed unexpectedly (INTERNAL); see its log");
  }

  @Test
  void cancelledWorkIsACancelledCall() {
    assertThat(receivedAfter(new CancellationException()).reason()).isEqualTo(Reason.CANCELLED);
  }

  @Test
  void aPeerThatDoesNotListenIsNamed() {
    Address nobody = Loopback.closedPort();
    try (var channel = RpcChannel.to(nobody)) {
      var failure = catchThrowable(() -> list(GpuServiceGrpc.newBlockingStub(channel.channel())));

      BerthException received = Statuses.fromStatus(failure, "berthd at " + nobody);

      assertThat(received.reason()).isEqualTo(Reason.UNAVAILABLE);
      assertThat(received)
          .hasMessageStartingWith("no berthd at " + nobody + ": ")
          .hasMessageContaining("Connection refused");
    }
  }

  @Test
  void aHostThatDoesNotExistIsSaidSo() {
    Address nowhere = new Address("gpu03.invalid", 18812);
    try (var channel = RpcChannel.to(nowhere)) {
      var failure = catchThrowable(() -> list(GpuServiceGrpc.newBlockingStub(channel.channel())));

      BerthException received = Statuses.fromStatus(failure, "berthd at " + nowhere);

      assertThat(received.reason()).isEqualTo(Reason.UNAVAILABLE);
      assertThat(received)
          .hasMessage(
              "no berthd at gpu03.invalid:18812: host gpu03.invalid not found; check the name, or"
                  + " give an IP address");
    }
  }

  @Test
  void aRegistryInPlaceOfABerthdIsSaidToBeOne() {
    try (var registry = Loopback.serving(new RegistryServiceImplBase() {})) {
      BerthException received =
          Statuses.fromStatus(
              catchThrowable(() -> list(registry.gpus())), "berthd at " + registry.address());

      assertThat(received.reason()).isEqualTo(Reason.UNSUPPORTED);
      assertThat(received)
          .hasMessage(
              "a registry answers at %1$s, not berthd: use --registry %1$s, or give --server the"
                  + " address of a berthd (its port is 18812 by default)",
              registry.address());
    }
  }

  @Test
  void aBerthdInPlaceOfARegistryIsSaidToBeOne() {
    try (var berthd = Loopback.servingNothing()) {
      var registry = RegistryServiceGrpc.newBlockingStub(berthd.channel());
      BerthException received =
          Statuses.fromStatus(
              catchThrowable(() -> registry.listServers(ListServersRequest.getDefaultInstance())),
              "registry at " + berthd.address());

      assertThat(received.reason()).isEqualTo(Reason.UNSUPPORTED);
      assertThat(received)
          .hasMessage(
              "berthd answers at %1$s, not a registry: use --server %1$s, or give --registry the"
                  + " address of a registry (its port is 18811 by default)",
              berthd.address());
    }
  }

  @Test
  void aPeerThatKeepsSilentIsNamedWhenTheDeadlinePasses() {
    try (var silent = Loopback.serving(new Silent())) {
      var failure =
          catchThrowable(() -> list(silent.gpus().withDeadlineAfter(50, TimeUnit.MILLISECONDS)));

      BerthException received = Statuses.fromStatus(failure, PEER);

      assertThat(received.reason()).isEqualTo(Reason.TIMED_OUT);
      assertThat(received).hasMessage(PEER + " did not answer in time");
    }
  }

  @Test
  void whoseConnectionIsEndedByThePeerHasNotCancelledAnything() throws Exception {
    CountDownLatch called = new CountDownLatch(1);
    Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .addService(
                new GpuServiceImplBase() {
                  @Override
                  public void listGpus(
                      ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
                    called.countDown();
                  }
                })
            .build()
            .start();
    try (var channel = RpcChannel.to(new Address("127.0.0.1", server.getPort()))) {
      var answer =
          GpuServiceGrpc.newFutureStub(channel.channel())
              .listGpus(ListGpusRequest.getDefaultInstance());
      called.await();

      server.shutdownNow().awaitTermination();

      Throwable failure = catchThrowable(answer::get).getCause();
      // The call may be reset before the connection is closed, or be closed with it.
      Status.Code code = Status.fromThrowable(failure).getCode();
      assertThat(code).isIn(Status.Code.CANCELLED, Status.Code.UNAVAILABLE);
      BerthException received = Statuses.fromStatus(failure, PEER);
      assertThat(received.reason()).isEqualTo(Reason.UNAVAILABLE);
      if (code == Status.Code.CANCELLED) {
        assertThat(received).hasMessage(PEER + " ended the connection");
      }
      assertThat(Statuses.connectionFailed(received)).isTrue();
    }
  }

  @Test
  void aPeerThatDoesNotKnowTheCallIsNamed() {
    try (var older = Loopback.servingNothing()) {
      BerthException received = Statuses.fromStatus(catchThrowable(() -> list(older.gpus())), PEER);

      assertThat(received.reason()).isEqualTo(Reason.UNSUPPORTED);
      assertThat(received)
          .hasMessage(PEER + " does not know this call; is it older than this client?");
    }
  }

  @Test
  void aStatusWithoutMessageNamesThePeer() {
    assertThat(Statuses.fromStatus(Status.NOT_FOUND.asException(), PEER))
        .hasMessage(PEER + " answered NOT_FOUND");
  }

  @Test
  void leavesABerthExceptionAsItIs() {
    var already = new BerthException(Reason.CONFLICT, "said already");
    assertThat(Statuses.fromStatus(already, PEER)).isSameAs(already);
  }

  @Test
  void refusesToTranslateWhatNoCallThrows() {
    var defect = new IllegalStateException();
    assertThatThrownBy(() -> Statuses.fromStatus(defect, PEER))
        .isInstanceOf(IllegalArgumentException.class)
        .hasCause(defect);
  }

  private static BerthException receivedAfter(Throwable failure) {
    return Statuses.fromStatus(thrownAfter(failure), PEER);
  }

  private static Status statusAfter(Throwable failure) {
    return thrownAfter(failure).getStatus();
  }

  private static StatusRuntimeException thrownAfter(Throwable failure) {
    try (var failing = Loopback.serving(new Failing(failure))) {
      return catchThrowableOfType(StatusRuntimeException.class, () -> list(failing.gpus()));
    }
  }

  private static ListGpusResponse list(GpuServiceGrpc.GpuServiceBlockingStub gpus) {
    return gpus.listGpus(ListGpusRequest.getDefaultInstance());
  }

  private static final class Failing extends GpuServiceImplBase {
    private final Throwable failure;

    Failing(Throwable failure) {
      this.failure = failure;
    }

    @Override
    public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
      observer.onError(Statuses.toException(failure));
    }
  }

  private static final class Silent extends GpuServiceImplBase {
    @Override
    public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {}
  }
}
