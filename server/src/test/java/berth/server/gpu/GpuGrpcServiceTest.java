package berth.server.gpu;

import static berth.host.gpu.FakeGpus.healthy;
import static berth.host.gpu.FakeGpus.lost;
import static berth.host.gpu.FakeGpus.needing;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.FakeGpus;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuReading;
import berth.host.gpu.GpuSource;
import berth.host.gpu.NvmlGpus;
import berth.host.gpu.NvmlStandIn;
import berth.host.gpu.RecoveryAction;
import berth.host.gpu.Xid;
import berth.rpc.Address;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.v1.GpuEccErrors;
import berth.v1.GpuHealthState;
import berth.v1.GpuMemory;
import berth.v1.GpuProcess;
import berth.v1.GpuProcesses;
import berth.v1.GpuRecoveryAction;
import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.HealGpuRequest;
import berth.v1.HealGpuResponse;
import berth.v1.ListGpusRequest;
import berth.v1.MigMode;
import berth.v1.PcieDistance;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import com.google.protobuf.Timestamp;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The service over a real connection. Nothing here depends on how fast it is. */
class GpuGrpcServiceTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Instant NOW = Instant.ofEpochSecond(1_700_000_000, 5);
  private static final GpuMonitor.Timing TIMING =
      new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofMinutes(10));
  private static final berth.v1.GpuHealth HEALTHY =
      berth.v1.GpuHealth.newBuilder().setState(GpuHealthState.GPU_HEALTH_STATE_HEALTHY).build();

  @TempDir private Path folder;

  private final Deque<AutoCloseable> open = new ArrayDeque<>();
  private final AtomicLong nanos = new AtomicLong();
  private RpcChannel channel;

  @AfterEach
  void closeInReverse() throws Exception {
    for (AutoCloseable closeable : open) {
      closeable.close();
    }
  }

  @Test
  void listsEverythingThatIsKnown() {
    GpuMonitor monitor = serveManually(standIn(NvmlStandIn.RICH).gpus(), nanos::get);
    monitor.sampleOnce();
    nanos.addAndGet(Duration.ofMillis(1500).toNanos());

    GpuReport report = list();

    assertThat(report.getAge())
        .isEqualTo(
            com.google.protobuf.Duration.newBuilder().setSeconds(1).setNanos(500_000_000).build());
    assertThat(report)
        .isEqualTo(
            GpuReport.newBuilder()
                .setServer("gpu01")
                .setSampledAt(Timestamp.newBuilder().setSeconds(1_700_000_000).setNanos(5))
                .setAge(report.getAge())
                .setDriverVersion("550.54.15")
                .setCudaVersion("12.4")
                .setSimulated(true)
                .addGpus(
                    berth.v1.Gpu.newBuilder()
                        .setIndex(0)
                        .setUuid("GPU-a")
                        .setPciBusId("00000000:07:00.0")
                        .setName("NVIDIA A100-SXM4-80GB")
                        .setMemory(memory(1L << 30))
                        .setGpuUtilizationPercent(37)
                        .setMemoryUtilizationPercent(12)
                        .setTemperatureCelsius(41)
                        .setPowerMilliwatts(87_000)
                        .setPowerLimitMilliwatts(400_000)
                        .setProcesses(
                            GpuProcesses.newBuilder()
                                .addProcesses(GpuProcess.newBuilder().setPid(99))
                                .addProcesses(
                                    GpuProcess.newBuilder()
                                        .setPid(4711)
                                        .setMemoryBytes(512L << 20)))
                        .setEccErrors(GpuEccErrors.newBuilder().setCorrected(3).setUncorrected(1))
                        .setMigMode(MigMode.MIG_MODE_ENABLED)
                        .setHealth(HEALTHY))
                .addGpus(
                    berth.v1.Gpu.newBuilder()
                        .setIndex(1)
                        .setUuid("GPU-b")
                        .setPciBusId("00000000:0F:00.0")
                        .setName("NVIDIA A100-SXM4-80GB")
                        .setMemory(memory(8L << 20))
                        .setGpuUtilizationPercent(0)
                        .setMemoryUtilizationPercent(0)
                        .setTemperatureCelsius(30)
                        .setPowerMilliwatts(52_000)
                        .setPowerLimitMilliwatts(400_000)
                        .setProcesses(GpuProcesses.getDefaultInstance())
                        .setEccErrors(GpuEccErrors.newBuilder().setCorrected(0).setUncorrected(0))
                        .setMigMode(MigMode.MIG_MODE_DISABLED)
                        .setHealth(HEALTHY))
                .addLinks(
                    berth.v1.GpuLink.newBuilder()
                        .setIndexA(0)
                        .setIndexB(1)
                        .setNvlinks(4)
                        .setPcieDistance(PcieDistance.PCIE_DISTANCE_ONE_SWITCH))
                .build());
  }

  @Test
  void leavesAbsentWhatTheDriverDoesNotTell() {
    GpuMonitor monitor = serveManually(standIn("gpu GPU-a\n").gpus(), nanos::get);
    monitor.sampleOnce();

    GpuReport report = list();

    assertThat(report.hasDriverVersion()).isFalse();
    assertThat(report.hasCudaVersion()).isFalse();
    assertThat(report.hasProblem()).isFalse();
    assertThat(report.getGpusList())
        .containsExactly(berth.v1.Gpu.newBuilder().setUuid("GPU-a").setHealth(HEALTHY).build());
  }

  @Test
  void saysWhyThereAreNoGpus() {
    var nowhere =
        new NvmlGpus(
            () -> NvmlGpus.load("/no/" + NvmlGpus.LIBRARY), false, NvmlGpus.RETRY, nanos::get);
    GpuMonitor monitor = serveManually(nowhere, nanos::get);
    assertThat(list().getProblem()).isEqualTo("the driver has not answered yet");
    assertThat(list().hasAge()).isFalse();
    assertThat(list().hasSampledAt()).isFalse();

    monitor.sampleOnce();

    assertThat(list().getProblem()).startsWith("no NVIDIA driver on this machine: ");
    assertThat(list().getGpusList()).isEmpty();
    assertThat(list().getSimulated()).isFalse();
  }

  @Test
  void streamsSamplesAndEveryChangeOfHealth() throws Exception {
    NvmlStandIn standIn = standIn(NvmlStandIn.RICH);
    serve(standIn.gpus(), TIMING);
    Watch watch = watch();
    GpuReport first = watch.next().getReport();
    assertThat(health(first)).containsExactly(HEALTHY, HEALTHY);
    assertThat(watch.next().hasReport()).isTrue();
    assertThat(watch.next().hasReport()).isTrue();

    standIn.describe(NvmlStandIn.RICH + "status 15\n");
    berth.v1.GpuHealthChange lost = watch.nextChange();
    assertThat(lost.getUuid()).isEqualTo("GPU-b");
    assertThat(lost.getIndex()).isEqualTo(1);
    assertThat(lost.getBefore()).isEqualTo(HEALTHY);
    assertThat(lost.getAfter().getState()).isEqualTo(GpuHealthState.GPU_HEALTH_STATE_LOST);
    assertThat(lost.getAfter().getReason()).contains("GPU is lost");
    assertThat(lost.hasNoticedAt()).isTrue();
    assertThat(watch.next().getReport().getGpus(1).getHealth()).isEqualTo(lost.getAfter());

    standIn.describe(NvmlStandIn.RICH);
    watch.awaitChangeTo(HEALTHY);

    standIn.describe(NvmlStandIn.RICH.replace("gpu GPU-b", "xid 1 79\ngpu GPU-b"));
    berth.v1.GpuHealthChange sick = watch.nextChange();
    assertThat(sick.getUuid()).isEqualTo("GPU-a");
    assertThat(sick.getAfter())
        .isEqualTo(
            berth.v1.GpuHealth.newBuilder()
                .setState(GpuHealthState.GPU_HEALTH_STATE_SICK)
                .setReason("XID 79, the GPU has fallen off the bus")
                .setRecoveryAction(GpuRecoveryAction.GPU_RECOVERY_ACTION_NODE_REBOOT)
                .setAdvice("reboot")
                .build());
    assertThat(watch.next().getReport().getGpus(0).getHealth()).isEqualTo(sick.getAfter());
  }

  @Test
  void healsAGpuUnlessTheDriverAsksForARecovery() throws Exception {
    var source = new FakeGpus().reports(healthy(0, "a"), healthy(1, "b"));
    GpuMonitor monitor = serveManually(source, nanos::get);
    monitor.sampleOnce();
    source.reportsXid("b", 48);
    monitor.awaitError(Duration.ZERO);
    assertThat(list().getGpus(1).getHealth().getState())
        .isEqualTo(GpuHealthState.GPU_HEALTH_STATE_SICK);

    assertThat(heal("1", false).getGpu())
        .isEqualTo(berth.v1.Gpu.newBuilder().setIndex(1).setUuid("b").setHealth(HEALTHY).build());
    assertThat(health(list())).containsExactly(HEALTHY, HEALTHY);
    assertThatThrownBy(() -> heal("7", false))
        .hasMessage("NOT_FOUND: no GPU '7' here: this server has 2");
    assertThatThrownBy(() -> heal("", false))
        .hasMessage("INVALID_ARGUMENT: missing GPU: give its index or UUID");

    source.reports(healthy(0, "a"), needing(1, "b", RecoveryAction.GPU_RESET));
    monitor.sampleOnce();
    assertThatThrownBy(() -> heal("b", false))
        .hasMessage(
            "FAILED_PRECONDITION: the driver asks for a GPU reset of GPU 1 (the driver requests a"
                + " recovery action): stop berthd, nvidia-smi --gpu-reset -i 1, start berthd; it"
                + " then comes back by itself (--force uses it as it is)");
    berth.v1.GpuHealth forced = heal("b", true).getGpu().getHealth();
    assertThat(forced.getState()).isEqualTo(GpuHealthState.GPU_HEALTH_STATE_HEALTHY);
    assertThat(forced.getRecoveryAction())
        .isEqualTo(GpuRecoveryAction.GPU_RECOVERY_ACTION_GPU_RESET);
  }

  @Test
  void answersAtOnceWhileTheDriverHangsAndRecoversWithIt() throws Exception {
    NvmlStandIn standIn = standIn(NvmlStandIn.RICH);
    Duration stall = Duration.ofMillis(500);
    serve(standIn.gpus(), new GpuMonitor.Timing(TIMING.interval(), stall));
    Watch watch = watch();

    standIn.describe("hang\n" + NvmlStandIn.RICH);
    String reason = "the driver has not answered for 0.5 s";
    berth.v1.GpuHealth unknown =
        berth.v1.GpuHealth.newBuilder()
            .setState(GpuHealthState.GPU_HEALTH_STATE_UNKNOWN)
            .setReason(reason)
            .build();
    assertThat(watch.nextChange().getAfter()).isEqualTo(unknown);
    awaitList(
        report -> {
          assertThat(report.getProblem()).isEqualTo(reason);
          assertThat(health(report)).containsExactly(unknown, unknown);
        });
    assertThat(health(watch().next().getReport())).containsExactly(unknown, unknown);

    standIn.describe(NvmlStandIn.RICH);
    watch.awaitChangeTo(HEALTHY);
    awaitList(
        report -> {
          assertThat(report.hasProblem()).isFalse();
          assertThat(health(report)).containsExactly(HEALTHY, HEALTHY);
        });
  }

  @Test
  void readsTheDriverOnceForAllWatchers() throws Exception {
    var source = new CountingSource(standIn(NvmlStandIn.RICH).gpus());
    GpuMonitor monitor = serveManually(source, nanos::get);
    List<Watch> watches = Stream.generate(this::watch).limit(20).toList();
    for (Watch watch : watches) {
      assertThat(watch.next().getReport().getGpusList()).isEmpty();
    }

    for (int i = 0; i < 5; i++) {
      monitor.sampleOnce();
      list();
    }

    for (Watch watch : watches) {
      for (int i = 0; i < 5; i++) {
        assertThat(watch.next().getReport().getGpusList()).hasSize(2);
      }
    }
    assertThat(source.reads).hasValue(5);
  }

  @Test
  void aSlowWatcherMissesSamplesButNoChangeOfHealth() throws Exception {
    // Large samples, so that the connection soon takes no more of them.
    String large = "x".repeat(200_000);
    var source = new FakeGpus().reports("0" + large, healthy(0, "a"));
    GpuMonitor monitor = serveManually(source, nanos::get);
    monitor.sampleOnce();
    var watch = new Watch(true);
    GpuServiceGrpc.newStub(channel.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), watch);
    assertThat(number(watch.next())).isZero();

    int last = 400;
    for (int i = 1; i <= last; i++) {
      source.reports(i + large, i / 40 % 2 == 0 ? healthy(0, "a") : lost(0, "a"));
      monitor.sampleOnce();
    }
    watch.call.request(Integer.MAX_VALUE);

    int seen = 0;
    int skipped = 0;
    List<berth.v1.GpuHealthChange> changes = new ArrayList<>();
    while (seen < last) {
      WatchGpusResponse response = watch.next();
      skipped += response.getSkippedSamples();
      seen += response.getSkippedSamples();
      if (response.hasReport()) {
        assertThat(number(response)).isEqualTo(++seen);
      } else {
        changes.add(response.getHealthChange());
      }
    }
    assertThat(skipped).isPositive();
    assertThat(changes)
        .hasSize(last / 40)
        .extracting(change -> change.getAfter().equals(HEALTHY))
        .startsWith(false, true, false, true, false, true);
  }

  @Test
  void aWatchEndsAsUnavailableWhenTheMonitorStopsAndSoDoesALaterOne() throws Exception {
    GpuMonitor monitor = serve(standIn(NvmlStandIn.RICH).gpus(), TIMING);
    Watch watch = watch();
    watch.next();

    monitor.close();

    for (Watch ended : List.of(watch, watch())) {
      assertThat(ended.end().getCode()).isEqualTo(Status.Code.UNAVAILABLE);
      assertThat(ended.end().getDescription()).isEqualTo("this server is stopping");
    }
    assertThat(list().getGpusList()).hasSize(2);
  }

  @Test
  void aWatchEndsAsUnavailableWhenTheServerStops() throws Exception {
    GpuMonitor monitor = track(GpuMonitor.start(standIn(NvmlStandIn.RICH).gpus(), TIMING));
    RpcServer server = listen(monitor);
    Watch watch = watch();
    watch.next();

    open.remove(server);
    server.close();

    assertThat(watch.end().getCode()).isEqualTo(Status.Code.UNAVAILABLE);
    assertThat(watch.end().getDescription()).isEqualTo("this server is stopping");
  }

  @Test
  void aWatchThatIsCancelledCostsNothingAnyMore() throws Exception {
    // Each watcher's report looks at the clock once, for the age of the sample.
    var looks = new AtomicInteger();
    GpuMonitor monitor =
        serveManually(new FakeGpus().reports(healthy(0, "a")), looks::incrementAndGet);
    int alone = looksDuringOneSample(monitor, looks);
    Watch staying = watch();
    Watch leaving = watch();
    staying.next();
    leaving.next();
    assertThat(looksDuringOneSample(monitor, looks)).isEqualTo(alone + 2);

    leaving.call.cancel("enough seen", null);

    await()
        .atMost(PATIENCE)
        .untilAsserted(() -> assertThat(looksDuringOneSample(monitor, looks)).isEqualTo(alone + 1));
    assertThat(leaving.end().getCode()).isEqualTo(Status.Code.CANCELLED);
    assertThat(staying.next().hasReport()).isTrue();
  }

  private static GpuMemory memory(long used) {
    return GpuMemory.newBuilder()
        .setTotalBytes(80L << 30)
        .setUsedBytes(used)
        .setFreeBytes((80L << 30) - used)
        .build();
  }

  private static int looksDuringOneSample(GpuMonitor monitor, AtomicInteger looks) {
    int before = looks.get();
    monitor.sampleOnce();
    return looks.get() - before;
  }

  private HealGpuResponse heal(String gpu, boolean force) {
    return GpuServiceGrpc.newBlockingStub(channel.channel())
        .healGpu(HealGpuRequest.newBuilder().setGpu(gpu).setForce(force).build());
  }

  private static int number(WatchGpusResponse response) {
    String version = response.getReport().getDriverVersion();
    return Integer.parseInt(version.substring(0, version.indexOf('x')));
  }

  private NvmlStandIn standIn(String description) {
    return track(new NvmlStandIn(folder, 3, description));
  }

  /** Serves a monitor that samples by itself. */
  private GpuMonitor serve(GpuSource source, GpuMonitor.Timing timing) throws InterruptedException {
    GpuMonitor monitor = track(GpuMonitor.start(source, timing));
    assertThat(monitor.awaitFirstSample(PATIENCE)).isTrue();
    listen(monitor);
    return monitor;
  }

  /** Serves a monitor that samples when the test says so. */
  private GpuMonitor serveManually(GpuSource source, LongSupplier nanoClock) {
    GpuMonitor monitor =
        track(new GpuMonitor(source, TIMING, nanoClock, Clock.fixed(NOW, ZoneOffset.UTC)));
    listen(monitor);
    return monitor;
  }

  private RpcServer listen(GpuMonitor monitor) {
    RpcServer server =
        track(
            RpcServer.listenOn(new Address("127.0.0.1", 0))
                .service(new GpuGrpcService("gpu01", monitor))
                .endStreams(monitor::close)
                .start());
    channel = track(RpcChannel.to(server.address()));
    return server;
  }

  private <T extends AutoCloseable> T track(T closeable) {
    open.push(closeable);
    return closeable;
  }

  private GpuReport list() {
    return GpuServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(PATIENCE.toSeconds(), TimeUnit.SECONDS)
        .listGpus(ListGpusRequest.getDefaultInstance())
        .getReport();
  }

  private void awaitList(Consumer<GpuReport> requirements) {
    await().atMost(PATIENCE).untilAsserted(() -> requirements.accept(list()));
  }

  private static List<berth.v1.GpuHealth> health(GpuReport report) {
    return report.getGpusList().stream().map(berth.v1.Gpu::getHealth).toList();
  }

  private Watch watch() {
    var watch = new Watch(false);
    GpuServiceGrpc.newStub(channel.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), watch);
    return watch;
  }

  /** The caller's side of one watch. */
  private static final class Watch
      implements ClientResponseObserver<WatchGpusRequest, WatchGpusResponse> {
    private final boolean slow;
    private final BlockingQueue<WatchGpusResponse> responses = new LinkedBlockingQueue<>();
    private final CompletableFuture<Status> end = new CompletableFuture<>();
    private ClientCallStreamObserver<WatchGpusRequest> call;

    /**
     * @param slow reads one response, and further ones only as requested
     */
    Watch(boolean slow) {
      this.slow = slow;
    }

    WatchGpusResponse next() {
      try {
        return Optional.ofNullable(responses.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS))
            .orElseThrow(() -> new AssertionError("no response; the end: " + end));
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }

    berth.v1.GpuHealthChange nextChange() {
      WatchGpusResponse response = next();
      while (!response.hasHealthChange()) {
        response = next();
      }
      return response.getHealthChange();
    }

    /** Passes over other changes: a loss in the middle of a reading is told for two reasons. */
    void awaitChangeTo(berth.v1.GpuHealth health) {
      berth.v1.GpuHealth after;
      do {
        after = nextChange().getAfter();
      } while (!after.equals(health));
    }

    Status end() throws Exception {
      return end.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<WatchGpusRequest> starting) {
      call = starting;
      if (slow) {
        call.disableAutoRequestWithInitial(1);
      }
    }

    @Override
    public void onNext(WatchGpusResponse response) {
      responses.add(response);
    }

    @Override
    public void onError(Throwable failure) {
      end.complete(Status.fromThrowable(failure));
    }

    @Override
    public void onCompleted() {
      end.complete(Status.OK);
    }
  }

  private static final class CountingSource implements GpuSource {
    private final GpuSource source;
    private final AtomicInteger reads = new AtomicInteger();

    CountingSource(GpuSource source) {
      this.source = source;
    }

    @Override
    public boolean simulated() {
      return source.simulated();
    }

    @Override
    public GpuReading read() {
      reads.incrementAndGet();
      return source.read();
    }

    @Override
    public Optional<Xid> awaitXid(Duration timeout) throws InterruptedException {
      return source.awaitXid(timeout);
    }

    @Override
    public void close() {
      source.close();
    }
  }
}
