package berth.server.overview;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.rpc.Address;
import berth.rpc.Messages;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.v1.ClusterStatus;
import berth.v1.GpuReport;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.OverviewServiceGrpc;
import berth.v1.RecentRuns;
import berth.v1.Reservation;
import berth.v1.Run;
import berth.v1.RunState;
import berth.v1.WatchOverviewRequest;
import berth.v1.WatchOverviewResponse;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class OverviewGrpcServiceTest {
  private final AtomicInteger looks = new AtomicInteger();
  private volatile OverviewSnapshot present =
      new OverviewSnapshot(
          GpuReport.newBuilder().setSampledAt(Messages.timestamp(Instant.EPOCH)).build(),
          ListReservationsResponse.newBuilder().setServer("gpu01").build(),
          RecentRuns.newBuilder()
              .addRuns(Run.newBuilder().setState(RunState.RUN_STATE_RUNNING).setOutputBytes(1))
              .build(),
          ListClustersResponse.newBuilder().setServer("gpu01").build());
  private final OverviewPoller lookout =
      new OverviewPoller(
          () -> {
            looks.incrementAndGet();
            return present;
          },
          Duration.ofMillis(5));
  private final OverviewGrpcService service = new OverviewGrpcService(lookout);
  private final RpcServer server =
      RpcServer.listenOn(new Address("127.0.0.1", 0))
          .service(service)
          .endStreams(service::close)
          .start();
  private final RpcChannel channel = RpcChannel.to(server.address());

  @AfterEach
  void close() {
    channel.close();
    server.close();
    lookout.close();
  }

  private Iterator<WatchOverviewResponse> watch() {
    return OverviewServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(20, TimeUnit.SECONDS)
        .watchOverview(WatchOverviewRequest.getDefaultInstance());
  }

  @Test
  void tellsEverythingFirstAndThenOnlyWhatChanged() {
    Iterator<WatchOverviewResponse> watch = watch();
    WatchOverviewResponse first = watch.next();
    assertThat(first.hasReport()).isTrue();
    assertThat(first.hasReservations()).isTrue();
    assertThat(first.getRuns().getRunsCount()).isOne();
    assertThat(first.hasClusters()).isTrue();

    ListClustersResponse clusters =
        ListClustersResponse.newBuilder()
            .addClusters(ClusterStatus.newBuilder().setName("mnist"))
            .build();
    present =
        new OverviewSnapshot(present.report(), present.reservations(), present.runs(), clusters);

    assertThat(watch.next())
        .isEqualTo(WatchOverviewResponse.newBuilder().setClusters(clusters).build());
  }

  @Test
  void aProgramThatPrintsIsNoNews() {
    Iterator<WatchOverviewResponse> watch = watch();
    watch.next();
    Run printed = Run.newBuilder().setState(RunState.RUN_STATE_RUNNING).setOutputBytes(99).build();
    present = with(RecentRuns.newBuilder().addRuns(printed).build());
    int before = looks.get();
    await().until(() -> looks.get() > before + 3);
    RecentRuns ended =
        RecentRuns.newBuilder()
            .addRuns(printed.toBuilder().setState(RunState.RUN_STATE_ENDED))
            .build();
    present = with(ended);

    assertThat(watch.next()).isEqualTo(WatchOverviewResponse.newBuilder().setRuns(ended).build());
  }

  private OverviewSnapshot with(RecentRuns runs) {
    return new OverviewSnapshot(present.report(), present.reservations(), runs, present.clusters());
  }

  @Test
  void theTimeThatIsLeftOfAReservationIsLeftOut() {
    ListReservationsResponse held =
        ListReservationsResponse.newBuilder()
            .addReservations(
                Reservation.newBuilder()
                    .setReservationId("r-1")
                    .setRemaining(Messages.duration(Duration.ofSeconds(7))))
            .build();

    assertThat(OverviewSnapshot.timeless(held).getReservations(0))
        .isEqualTo(Reservation.newBuilder().setReservationId("r-1").build());
  }

  @Test
  void nobodyLooksForNobody() {
    Context.CancellableContext caller = Context.current().withCancellation();
    caller.run(() -> watch().next());
    caller.cancel(null);
    await().until(() -> lookout.newest() == OverviewSnapshot.NONE);
    int before = looks.get();
    await().pollDelay(Duration.ofMillis(50)).until(() -> true);

    assertThat(looks.get()).isEqualTo(before);
  }

  @Test
  void oneWhoComesLaterIsToldEverythingToo() {
    watch().next();
    WatchOverviewResponse second = watch().next();

    assertThat(second.hasReport()).isTrue();
    assertThat(second.hasClusters()).isTrue();
  }

  @Test
  void watchesEndAsUnavailableWhenTheServerStops() {
    Iterator<WatchOverviewResponse> watch = watch();
    watch.next();
    server.close();

    assertThatThrownBy(watch::next)
        .isInstanceOfSatisfying(
            StatusRuntimeException.class,
            e -> assertThat(e.getStatus().getCode()).isEqualTo(Status.Code.UNAVAILABLE));
  }
}
