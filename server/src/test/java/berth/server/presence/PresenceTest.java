package berth.server.presence;

import static berth.metrics.ShownMetrics.value;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.reservation.Reservations;
import berth.server.run.Disks;
import berth.server.run.MountRules;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.server.run.UidRange;
import berth.server.run.process.ProcessRuntime;
import berth.v1.GpuState;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A server with two simulated GPUs, and what registries hear of it. */
class PresenceTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  @TempDir private Path folder;
  private GpuMonitor gpus;
  private Reservations reservations;
  private ProcessRuntime runtime;
  private Runs runs;
  private Presence presence;
  private final Metrics metrics = new Metrics();
  private final ScriptedRegistry registry = new ScriptedRegistry();
  private final ScriptedRegistry other = new ScriptedRegistry();
  private volatile List<Address> found = List.of();

  @BeforeEach
  void open() throws Exception {
    Path locks = Files.createDirectory(folder.resolve("locks"));
    describe("");
    describeMemory(48);
    gpus =
        GpuMonitor.ofSimulation(
            folder.resolve("gpus.txt").toString(),
            "",
            new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    gpus.awaitFirstSample(PATIENCE);
    Path state = folder.resolve("state");
    Vitals vitals = new Vitals();
    DurableFiles durable = new DurableFiles(vitals);
    reservations =
        Reservations.open(
            new Reservations.Settings("gpu01", locks, state, "20000-20999", false),
            gpus,
            durable,
            vitals,
            metrics);
    runtime = new ProcessRuntime(id -> Runs.folder(state, id), true);
    runs =
        Runs.open(
            new Runs.Settings(
                "gpu01",
                state,
                Services.none(),
                MountRules.none(),
                new UidRange(2_100_000_000, 2_100_009_999),
                Duration.ofSeconds(10),
                1 << 20,
                Duration.ofDays(1),
                1 << 20,
                Disks.PLENTY,
                false),
            reservations,
            gpus,
            runtime,
            durable,
            vitals,
            metrics);
  }

  @AfterEach
  void close() throws Exception {
    if (presence != null) {
      presence.close();
    }
    runs.close();
    runtime.close();
    reservations.close();
    gpus.close();
    registry.close();
    other.close();
  }

  @Test
  void registersWithWhatItIs() {
    start(registry);

    RegisterRequest request = awaitRegistration(registry, 1);
    assertThat(request.getInfo().getName()).isEqualTo("gpu01");
    assertThat(request.getInfo().getAddress()).isEqualTo("127.0.0.1:18812");
    assertThat(request.getInfo().getGpusCount()).isEqualTo(2);
    assertThat(request.getInfo().getGpus(1).getModel()).isEqualTo("Simulated A100");
    assertThat(request.getInfo().getGpus(1).getMemoryBytes()).isEqualTo(81920L << 20);
    assertThat(request.getInfo().getSimulated()).isTrue();
    assertThat(request.getInfo().getMemoryBytes()).isEqualTo(64L << 30);
    assertThat(request.getStatus().getFreeMemoryBytes()).isEqualTo(48L << 30);
    assertThat(request.getStatus().getGpusList())
        .extracting(gpu -> gpu.getState())
        .containsExactly(GpuState.GPU_STATE_FREE, GpuState.GPU_STATE_FREE);
    assertThat(request.getStatus().getCanRun()).isTrue();
    assertThat(request.getGeneration()).isZero();
  }

  @Test
  void sendsWhatChangedAndElseOnlyThatItLives() throws IOException {
    start(registry);
    awaitRegistration(registry, 1);
    await().atMost(PATIENCE).until(() -> registry.heartbeats.size() >= 3);
    // The first tells all, in case that somebody else has had the last.
    assertThat(registry.heartbeats.get(0).hasStatus()).isTrue();
    assertThat(registry.heartbeats.subList(1, 3))
        .noneMatch(beat -> beat.hasStatus() || beat.hasInfo());
    registry.heartbeats.clear();

    describe("  status 15\n");

    HeartbeatRequest news = awaitNews();
    assertThat(news.getStatus().getGpus(0).getState()).isEqualTo(GpuState.GPU_STATE_UNHEALTHY);
    assertThat(news.getStatus().getGpus(0).getReason()).contains("GPU is lost");
    assertThat(news.getStatus().getGpus(1).getState()).isEqualTo(GpuState.GPU_STATE_FREE);
    reservations.setDraining(true);
    awaitStatus(ServerStatus::getDraining);
    describeMemory(40);
    awaitStatus(status -> status.getFreeMemoryBytes() == 40L << 30);
  }

  @Test
  void registersAgainAtOnceWhenItIsForgotten() {
    start(registry);
    awaitRegistration(registry, 1);

    registry.answer = HeartbeatResponse.newBuilder().setUnknown(true).build();

    RegisterRequest again = awaitRegistration(registry, 2);
    assertThat(again.getGeneration()).isEqualTo(7);
    assertThat(again.getInstance()).isEqualTo(registry.registrations.get(0).getInstance());
  }

  @Test
  void showsWhetherItIsRegisteredAndCountsWhatFails() {
    start(registry);
    await().atMost(PATIENCE).until(() -> value(metrics, "berth_presence_registered") == 1);
    await().atMost(PATIENCE).until(() -> heartbeats("answered") >= 1);
    assertThat(heartbeats("failed")).isEqualTo(0);

    registry.silent = true;

    await().atMost(PATIENCE).until(() -> value(metrics, "berth_presence_registered") == 0);
    assertThat(heartbeats("failed")).isGreaterThanOrEqualTo(1);
    registry.silent = false;
    await().atMost(PATIENCE).until(() -> value(metrics, "berth_presence_registered") == 1);
    assertThat(leasesLost("forgotten")).isEqualTo(0);
  }

  @Test
  void countsTheLeasesThatItLost() {
    start(registry);
    awaitRegistration(registry, 1);
    registry.answer = HeartbeatResponse.newBuilder().setUnknown(true).build();
    await().atMost(PATIENCE).until(() -> leasesLost("forgotten") >= 1);
    assertThat(leasesLost("replaced")).isEqualTo(0);
    registry.answer = HeartbeatResponse.newBuilder().setReplacedBy("gpu01 at other:1").build();
    await().atMost(PATIENCE).until(() -> leasesLost("replaced") >= 1);
    assertThat(value(metrics, "berth_presence_registered")).isEqualTo(0);
  }

  private double heartbeats(String outcome) {
    return value(metrics, "berth_presence_heartbeats_total{outcome=\"" + outcome + "\"}");
  }

  private double leasesLost(String reason) {
    return value(metrics, "berth_presence_leases_lost_total{reason=\"" + reason + "\"}");
  }

  @Test
  void goesToTheNextRegistryWhenOneDoesNotAnswerHeartbeats() {
    start(registry, other);
    awaitRegistration(registry, 1);
    await().atMost(PATIENCE).until(() -> !registry.heartbeats.isEmpty());

    registry.silent = true;

    await().atMost(PATIENCE).until(() -> !other.heartbeats.isEmpty());
    // The two have one store: it is still registered.
    assertThat(other.registrations).isEmpty();
    assertThat(other.heartbeats.get(0).getLeaseId()).isEqualTo("lease");
  }

  @Test
  void goesToTheNextRegistryWhenOneDoesNotTakeRegistrations() {
    registry.silent = true;

    start(registry, other);

    awaitRegistration(other, 1);
  }

  @Test
  void looksForAnotherRegistryWhenItsOwnStaysAway() {
    start(registry);
    awaitRegistration(registry, 1);

    registry.close();
    found = List.of(other.address());

    await().atMost(PATIENCE).until(() -> !other.heartbeats.isEmpty());
  }

  @Test
  void keepsTryingWhileANewerServerHasItsName() {
    registry.refusal =
        Optional.of(new BerthException(Reason.ALREADY_EXISTS, "a newer server has the name"));
    start(registry);
    awaitRegistration(registry, 1);

    registry.refusal = Optional.empty();

    awaitRegistration(registry, 2);
    await().atMost(PATIENCE).until(() -> !registry.heartbeats.isEmpty());
  }

  @Test
  void registersAsNewWhenARegistryDoesNotBelieveItsNumber() {
    start(registry);
    awaitRegistration(registry, 1);
    await().atMost(PATIENCE).until(() -> !registry.heartbeats.isEmpty());
    registry.refusal = Optional.of(new BerthException(Reason.INVALID, "unknown generation 7"));
    registry.answer = HeartbeatResponse.newBuilder().setUnknown(true).build();
    assertThat(awaitRegistration(registry, 2).getGeneration()).isEqualTo(7);

    registry.refusal = Optional.empty();
    registry.answer = HeartbeatResponse.newBuilder().setKnown(true).build();

    assertThat(awaitRegistration(registry, 3).getGeneration()).isZero();
  }

  @Test
  void leavesWhenTheServerStops() {
    start(registry);
    awaitRegistration(registry, 1);
    await().atMost(PATIENCE).until(() -> !registry.heartbeats.isEmpty());

    presence.close();

    assertThat(registry.leavings).singleElement().extracting(l -> l.getName()).isEqualTo("gpu01");
  }

  private void start(ScriptedRegistry... registries) {
    found = List.of(registries).stream().map(ScriptedRegistry::address).toList();
    presence =
        Presence.start(
            new Presence.Settings(
                () -> found,
                Optional.empty(),
                new Address("127.0.0.1", 18812),
                ServerInfo.newBuilder().setName("gpu01").build()),
            new MachineMemory(folder.resolve("meminfo")),
            gpus,
            reservations,
            runs,
            new Vitals(),
            metrics);
  }

  private RegisterRequest awaitRegistration(ScriptedRegistry from, int count) {
    await().atMost(PATIENCE).until(() -> from.registrations.size() >= count);
    return from.registrations.get(count - 1);
  }

  private void awaitStatus(Predicate<ServerStatus> condition) {
    await()
        .atMost(PATIENCE)
        .until(() -> registry.heartbeats.stream().anyMatch(b -> condition.test(b.getStatus())));
  }

  private HeartbeatRequest awaitNews() {
    await()
        .atMost(PATIENCE)
        .until(() -> registry.heartbeats.stream().anyMatch(HeartbeatRequest::hasStatus));
    return registry.heartbeats.stream().filter(HeartbeatRequest::hasStatus).findFirst().get();
  }

  private void describeMemory(int freeGib) throws IOException {
    Path written =
        Files.writeString(
            folder.resolve("new.txt"),
            "MemTotal: " + (64 << 20) + " kB\nMemAvailable: " + (freeGib << 20) + " kB\n");
    Files.move(written, folder.resolve("meminfo"), StandardCopyOption.REPLACE_EXISTING);
  }

  private void describe(String ofTheFirst) throws IOException {
    String gpu = "  name Simulated A100\n  memory 81920 0\n  processes\n";
    Path written =
        Files.writeString(
            folder.resolve("new.txt"), "gpu GPU-0\n" + gpu + ofTheFirst + "gpu GPU-1\n" + gpu);
    Files.move(written, folder.resolve("gpus.txt"), StandardCopyOption.REPLACE_EXISTING);
  }
}
