package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.Berth;
import berth.client.GpuReservation;
import berth.client.RunResult;
import berth.client.cluster.ClusterRequest;
import berth.client.spec.GpuLoad;
import berth.client.spec.GpuServer;
import berth.client.spec.ReservationSpec;
import berth.client.spec.RunSpec;
import berth.client.spec.ServerGpu;
import berth.fake.FakeGpuService;
import berth.fake.FakeRegistry;
import berth.fake.FakeReservations;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.v1.Gpu;
import berth.v1.GpuHealth;
import berth.v1.GpuHealthState;
import berth.v1.GpuMemory;
import berth.v1.ListReservationsResponse;
import berth.v1.LockHolder;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One server without a registry, and the loads that servers tell. */
class GivenServerTest {
  private final FakeGpuService gpus = new FakeGpuService();
  private final FakeRuns runs = new FakeRuns();
  private final FakeReservations reservations = new FakeReservations("r-1");
  private final RpcServer server =
      RpcServer.listenOn(new Address("127.0.0.1", 0))
          .service(gpus)
          .service(runs)
          .service(reservations)
          .start();
  private final Berth berth = Berth.connectTo(server.address().toString());

  @BeforeEach
  void start() {
    gpus.gpus = List.of(gpu(0).build(), gpu(1).build(), gpu(2).build());
    reservations.listed =
        ListReservationsResponse.newBuilder()
            .setServer("gpu01")
            .addReservations(Reservation.newBuilder().addGpus(ReservedGpu.newBuilder().setIndex(1)))
            .addLockedByOthers(LockHolder.newBuilder().setIndex(2))
            .build();
  }

  @AfterEach
  void close() {
    berth.close();
    server.close();
    runs.close();
    reservations.close();
  }

  @Test
  void tellsItselfAndItsGpus() {
    assertThat(berth.servers()).extracting(GpuServer::name).containsExactly("gpu01");
    assertThat(berth.gpus())
        .extracting(ServerGpu::state)
        .containsExactly(ServerGpu.State.FREE, ServerGpu.State.RESERVED, ServerGpu.State.LOCKED);
  }

  @Test
  void takesARunWithItsGpusByIndex() {
    runs.onRun =
        (request, stream) ->
            FakeRuns.end(stream, FakeRuns.accepted(), FakeRuns.started(), FakeRuns.finished());

    RunResult result =
        berth.run(
            RunSpec.builder().command("train").exactGpus("0").memory("8g").build(), line -> {});

    assertThat(result.succeeded()).isTrue();
    assertThat(runs.asked.poll().getGpus().getExactly().getIdsList()).containsExactly("0");
  }

  @Test
  void takesAReservation() {
    try (GpuReservation held = berth.reserve(ReservationSpec.builder().gpus(1).build())) {
      assertThat(held.server()).isEqualTo("gpu01");
    }
    assertThat(reservations.released).containsExactly("r-1");
  }

  @Test
  void refusesWhatNeedsARegistry() {
    RunSpec.Builder run = RunSpec.builder().command("train");
    ClusterRequest cluster =
        ClusterRequest.named("two").task("worker", 2, worker -> worker.command("a")).build();

    assertFails(
        () -> berth.cluster(cluster, event -> {}),
        Reason.INVALID,
        "a cluster needs a registry; this is one server, at " + server.address());
    assertFails(
        () -> berth.run(run.servers("gpu02").build(), line -> {}),
        Reason.EXHAUSTED,
        "the server at " + server.address() + " is not one of those named: gpu02");
    assertFails(
        () -> berth.run(run.label("room", "b12").build(), line -> {}),
        Reason.INVALID,
        "labels require a registry");
    assertFails(
        () -> berth.runs("gpu02"),
        Reason.NOT_FOUND,
        "the server at " + server.address() + " is not gpu02");
  }

  @Test
  void gpusHaveTheLoadThatTheirServersTell() {
    FakeRegistry registry = new FakeRegistry();
    registry.servers =
        List.of(
            FakeRegistry.server("gone", new Address("127.0.0.1", 1), 1, 1),
            FakeRegistry.server("gpu01", server.address(), 2, 2));
    gpus.gpus =
        List.of(
            gpu(0)
                .setGpuUtilizationPercent(97)
                .setTemperatureCelsius(71)
                .setPowerMilliwatts(250_000)
                .setMemory(
                    GpuMemory.newBuilder().setTotalBytes(80).setUsedBytes(30).setFreeBytes(50))
                .build(),
            gpu(1)
                .setHealth(
                    GpuHealth.newBuilder()
                        .setState(GpuHealthState.GPU_HEALTH_STATE_SICK)
                        .setReason("XID 79"))
                .build());

    try (registry;
        Berth all = Berth.connect(registry.address().toString())) {
      List<ServerGpu> found = all.gpus();

      assertThat(found).extracting(ServerGpu::server).containsExactly("gone", "gpu01", "gpu01");
      assertThat(found.get(0).load()).isEqualTo(GpuLoad.UNKNOWN);
      assertThat(found.get(1).load())
          .isEqualTo(
              new GpuLoad(
                  OptionalInt.of(97),
                  OptionalLong.of(30),
                  OptionalInt.of(71),
                  OptionalInt.of(250_000),
                  OptionalInt.empty()));
      assertThat(found.get(1).freeMemoryBytes()).isEqualTo(50);
      assertThat(found.get(2).state()).isEqualTo(ServerGpu.State.UNHEALTHY);
      assertThat(found.get(2).reason()).isEqualTo("XID 79");
    }
  }

  @Test
  void aGpuByIndexNeedsOneNamedServerOfARegistry() {
    FakeRegistry registry = new FakeRegistry();
    try (registry;
        Berth all = Berth.connect(registry.address().toString())) {
      RunSpec.Builder run = RunSpec.builder().command("train").exactGpus("0", "GPU-a");

      assertFails(
          () -> all.run(run.build(), line -> {}),
          Reason.INVALID,
          "GPUs are asked for by index (0, GPU-a): name the one server that has them too, or use"
              + " UUIDs");
      assertThatThrownBy(() -> all.run(run.servers("gpu01").build(), line -> {}))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED));
      assertThat(registry.asked)
          .singleElement()
          .matches(asked -> asked.getGpus().getExactly().getIdsCount() == 2);
    }
  }

  private static Gpu.Builder gpu(int index) {
    return Gpu.newBuilder()
        .setIndex(index)
        .setUuid("gpu01-" + index)
        .setHealth(GpuHealth.newBuilder().setState(GpuHealthState.GPU_HEALTH_STATE_HEALTHY));
  }

  private static void assertFails(
      org.assertj.core.api.ThrowableAssert.ThrowingCallable call, Reason reason, String message) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.reason()).isEqualTo(reason))
        .hasMessage(message);
  }
}
