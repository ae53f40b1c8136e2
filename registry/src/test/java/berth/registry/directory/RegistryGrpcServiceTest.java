package berth.registry.directory;

import static berth.registry.directory.SampleServers.heartbeat;
import static berth.registry.directory.SampleServers.registration;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.metrics.Metrics;
import berth.metrics.ShownMetrics;
import berth.registry.line.TurnLine;
import berth.rpc.Address;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.rpc.Vitals;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import berth.v1.DeregisterRequest;
import berth.v1.FindGpusRequest;
import berth.v1.GpuRequest;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.ListServersRequest;
import berth.v1.ListServersResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegistryServiceGrpc;
import berth.v1.RegistryServiceGrpc.RegistryServiceBlockingStub;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import io.netty.util.internal.PlatformDependent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The registry over real connections. */
class RegistryGrpcServiceTest {
  private static final Duration SOON = Duration.ofSeconds(30);

  private final ThreadPoolExecutor threads = (ThreadPoolExecutor) Executors.newFixedThreadPool(4);
  private final ExecutorService storeThreads = Executors.newFixedThreadPool(4);
  private final Metrics metrics = new Metrics();
  private final DirectoryMetrics directoryMetrics = new DirectoryMetrics(metrics);
  private final Directory directory =
      new MemoryDirectory(
          new LeaseTerms(Duration.ofMinutes(5), 20_000), directoryMetrics, new Vitals());
  private final RegistryGrpcService service =
      new RegistryGrpcService(
          directory, directoryMetrics, new TurnLine(System::nanoTime), threads, storeThreads);
  private final RpcServer server =
      RpcServer.listenOn(new Address("127.0.0.1", 0))
          // All watchers of these tests come from one address.
          .maxConnections(40_000, 10_000)
          .service(service)
          .endStreams(service::close)
          .executor(threads)
          .start();
  private final List<RpcChannel> channels = new ArrayList<>();
  private final RpcChannel channel = connect();

  @AfterEach
  void close() {
    channels.forEach(RpcChannel::close);
    server.close();
    directory.close();
    threads.shutdownNow();
    storeThreads.shutdownNow();
  }

  @Test
  void aServerRegistersReportsAndLeaves() {
    String lease = stub().register(registration("gpu01", "h1:1", "a", 4)).getLeaseId();
    Beats beats = new Beats();
    StreamObserver<HeartbeatRequest> stream =
        RegistryServiceGrpc.newStub(channel.channel()).heartbeat(beats);

    stream.onNext(heartbeat("gpu01", "a", lease).toBuilder().setStatus(status(4, 1)).build());

    await().atMost(SOON).until(() -> beats.answers.size() == 1);
    assertThat(beats.answers.get(0).getKnown()).isTrue();
    assertThat(list(ServerFilter.newBuilder().setMinFreeGpus(2))).isEmpty();
    assertThat(list(ServerFilter.newBuilder().setMinFreeGpus(1))).containsExactly("gpu01");
    stub().deregister(DeregisterRequest.newBuilder().setName("gpu01").setInstance("a").build());
    assertThat(list(ServerFilter.newBuilder())).isEmpty();
    stream.onNext(heartbeat("gpu01", "a", lease));
    await().atMost(SOON).until(() -> beats.answers.size() == 2);
    assertThat(beats.answers.get(1).getUnknown()).isTrue();
  }

  @Test
  void showsWhoIsKnownAndCountsWhatServersSay() {
    service.reportTo(metrics);
    assertThat(value("berth_registry_gpus{state=\"unhealthy\"}")).isEqualTo(0);
    String lease = stub().register(registration("gpu01", "h1:1", "a", 4)).getLeaseId();
    stub().register(registration("gpu02", "h2:1", "b", 2));
    Beats beats = new Beats();
    StreamObserver<HeartbeatRequest> stream =
        RegistryServiceGrpc.newStub(channel.channel()).heartbeat(beats);
    stream.onNext(
        heartbeat("gpu01", "a", lease).toBuilder()
            .setStatus(status(4, 1).toBuilder().setDraining(true))
            .build());
    // One that comes before the answer to the last is joined with it.
    await().atMost(SOON).until(() -> beats.answers.size() == 1);
    stream.onNext(heartbeat("gpu09", "x", lease));
    await().atMost(SOON).until(() -> beats.answers.size() == 2);

    assertThat(value("berth_registry_registrations_total")).isEqualTo(2);
    assertThat(value("berth_registry_heartbeats_total{outcome=\"known\"}")).isEqualTo(1);
    assertThat(value("berth_registry_heartbeats_total{outcome=\"unknown\"}")).isEqualTo(1);
    assertThat(value("berth_registry_servers{state=\"serving\"}")).isEqualTo(1);
    assertThat(value("berth_registry_servers{state=\"draining\"}")).isEqualTo(1);
    assertThat(value("berth_registry_servers{state=\"troubled\"}")).isEqualTo(0);
    assertThat(value("berth_registry_gpus{state=\"free\"}")).isEqualTo(3);
    assertThat(value("berth_registry_gpus{state=\"reserved\"}")).isEqualTo(3);
    assertThat(value("berth_registry_server_gpus{server=\"gpu01\",state=\"reserved\"}"))
        .isEqualTo(3);
    assertThat(value("berth_registry_server_gpus{server=\"gpu02\",state=\"locked\"}")).isEqualTo(0);
  }

  @Test
  void showsHowManyWatchAndStandInLine() {
    service.reportTo(metrics);
    assertThat(value("berth_registry_watchers")).isEqualTo(0);
    Iterator<WatchServersResponse> watch =
        stub().watchServers(WatchServersRequest.getDefaultInstance());
    watch.next();
    Iterator<AwaitTurnResponse> turn =
        stub().awaitTurn(AwaitTurnRequest.newBuilder().addServers("gpu01").build());
    turn.next();
    assertThat(value("berth_registry_watchers")).isEqualTo(1);
    assertThat(value("berth_registry_line_length")).isEqualTo(1);
  }

  private double value(String series) {
    return ShownMetrics.value(metrics, series);
  }

  @Test
  void aRegistrationThatIsTooLargeIsRefusedAndChangesNothing() {
    RegisterRequest.Builder large = registration("gpu01", "h1:1", "a", 4).toBuilder();
    for (int i = 0; i < 63; i++) {
      large.getInfoBuilder().putLabels("label" + i, "x".repeat(255));
    }
    stub().register(large.build());
    stub().deregister(DeregisterRequest.newBuilder().setName("gpu01").setInstance("a").build());

    large.getInfoBuilder().addServicesBuilder().setName("x".repeat(60_000));

    refused(large, "a server of ", Status.Code.INVALID_ARGUMENT);
    assertThat(list(ServerFilter.newBuilder())).isEmpty();
  }

  @Test
  void whatIsNoServerIsRefused() {
    RegisterRequest good = registration("gpu01", "h1:1", "a", 4);
    RegisterRequest.Builder noName = good.toBuilder();
    noName.getInfoBuilder().setName("gpu 01");
    RegisterRequest.Builder noPort = good.toBuilder();
    noPort.getInfoBuilder().setAddress("h1");

    refused(noName, "invalid server name 'gpu 01'", Status.Code.INVALID_ARGUMENT);
    refused(noPort, "the address 'h1:0' is not HOST:PORT", Status.Code.INVALID_ARGUMENT);
    RegisterRequest.Builder padded = good.toBuilder();
    padded.getInfoBuilder().setAddress("\u001bh1:1");
    refused(padded, "the address must be plain text", Status.Code.INVALID_ARGUMENT);
    refused(
        good.toBuilder().setGeneration(-1),
        "unknown generation 18446744073709551615",
        Status.Code.INVALID_ARGUMENT);
    refused(
        good.toBuilder().setInstance(""),
        "the instance must have 1 to 100 characters",
        Status.Code.INVALID_ARGUMENT);
  }

  @Test
  void listsInPages() {
    for (int i = 0; i < 25; i++) {
      directory.register(registration("gpu%02d".formatted(i), "h" + i + ":1", "i" + i, 1));
    }
    List<String> names = new ArrayList<>();
    ListServersRequest.Builder request = ListServersRequest.newBuilder().setPageSize(10);
    ListServersResponse response;
    do {
      response = stub().listServers(request.build());
      assertThat(response.getServersCount()).isLessThanOrEqualTo(10);
      response.getServersList().forEach(s -> names.add(s.getInfo().getName()));
      request.setPageToken(response.getNextPageToken());
    } while (!response.getNextPageToken().isEmpty());

    assertThat(names).hasSize(25).isSorted().doesNotHaveDuplicates();
  }

  @Test
  void findsWhoCouldTakeARequest() {
    directory.register(registration("gpu01", "h1:1", "a", 4));

    var found =
        stub()
            .findGpus(
                FindGpusRequest.newBuilder().setGpus(GpuRequest.newBuilder().setCount(2)).build());

    assertThat(found.getCandidates(0).getServer().getInfo().getAddress()).isEqualTo("h1:1");
  }

  @Test
  void heartbeatsThatComeFasterThanTheyAreTakenAreJoined() {
    String lease = stub().register(registration("gpu01", "h1:1", "a", 4)).getLeaseId();
    Beats beats = new Beats();
    StreamObserver<HeartbeatRequest> stream =
        RegistryServiceGrpc.newStub(channel.channel()).heartbeat(beats);

    for (int i = 0; i <= 5000; i++) {
      HeartbeatRequest.Builder beat = heartbeat("gpu01", "a", lease).toBuilder();
      if (i % 2 == 0) {
        beat.setStatus(status(4, 0).toBuilder().setQueueLength(i));
      }
      stream.onNext(beat.build());
    }

    await()
        .atMost(SOON)
        .until(
            () ->
                directory.roster().find("gpu01").get().server().getStatus().getQueueLength()
                    == 5000);
  }

  @Test
  void aWatcherThatStopsReadingCostsNothingAndSlowsNobody() {
    for (int i = 0; i < 200; i++) {
      directory.register(registration("gpu" + i, "h" + i + ":1", "i" + i, 8));
    }
    // What waits on the caller's side is not the registry's: hardly anything has room there.
    ManagedChannel narrow =
        NettyChannelBuilder.forAddress("127.0.0.1", server.address().port())
            .usePlaintext()
            .flowControlWindow(65_535)
            .build();
    List<Watcher> stalled = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      stalled.add(watch(narrow, 1));
    }
    await().atMost(SOON).until(() -> stalled.stream().allMatch(w -> w.messages.get() == 1));
    Watcher reader = watch(connect().channel(), Integer.MAX_VALUE);
    await().atMost(SOON).until(() -> reader.complete);
    long before = usedMemory();

    for (int round = 1; round <= 500; round++) {
      for (int i = 0; i < 200; i++) {
        directory.heartbeat(
            heartbeat("gpu" + i, "i" + i, "i" + i).toBuilder()
                .setStatus(status(8, round % 8).toBuilder().setQueueLength(round))
                .build());
      }
    }

    await().atMost(SOON).until(() -> reader.last("gpu199").getStatus().getQueueLength() == 500);
    // A hundred watchers with 100,000 changes of a kilobyte each would have 10 GB.
    assertThat(usedMemory() - before).isLessThan(64L << 20);
    Watcher one = stalled.get(0);
    one.requests.request(Integer.MAX_VALUE);
    await()
        .atMost(SOON)
        .until(
            () ->
                one.last("gpu199") != null
                    && one.last("gpu199").getStatus().getQueueLength() == 500);
    assertThat(one.messages.get()).isLessThan(100);
    narrow.shutdownNow();
  }

  @Test
  void tenThousandWatchersAreToldOfAChange() {
    directory.register(registration("gpu01", "h1:1", "a", 2));
    List<Watcher> watchers = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      RpcChannel connection = connect();
      for (int j = 0; j < 500; j++) {
        watchers.add(watch(connection.channel(), Integer.MAX_VALUE));
      }
    }
    await().atMost(SOON).until(() -> watchers.stream().allMatch(w -> w.complete));

    directory.register(registration("gpu02", "h2:1", "b", 2));

    await().atMost(SOON).until(() -> watchers.stream().allMatch(w -> w.last("gpu02") != null));
  }

  @Test
  void aTurnIsTheNextOnesWhenItsConnectionIsGone() {
    RpcChannel other = connect();
    Iterator<AwaitTurnResponse> first = awaitTurn(other, turn("gpu01", "gpu02"));
    while (!first.next().getTurn()) {
      // A new line lets others come first.
    }
    Iterator<AwaitTurnResponse> second = awaitTurn(channel, turn("gpu02"));
    assertThat(second.next().getAhead().getCount()).isEqualTo(1);
    assertThat(awaitTurn(channel, turn("gpu03")).next().getTurn()).isTrue();

    other.close();

    assertThat(second.next().getTurn()).isTrue();
  }

  @Test
  void aPlaceInLineForWhatIsNoServerIsRefused() {
    assertNoTurn(turn(), "a turn needs at least one server");
    assertNoTurn(turn("gpu01", "gpu 02"), "invalid server name 'gpu 02'");
    assertNoTurn(
        turn(Collections.nCopies(10_001, "a").toArray(String[]::new)),
        "a turn for 10001 servers, at most 10000");
    assertNoTurn(
        turn("gpu01").setPurpose("x".repeat(201)),
        "the purpose has 201 characters, 200 are allowed");
    AwaitTurnRequest.Builder owned = turn("gpu01");
    owned.getOwnerBuilder().setUser("x".repeat(150)).setHost("x".repeat(51));
    assertNoTurn(owned, "the owner has 201 characters, 200 are allowed");
    AwaitTurnRequest.Builder early = turn("gpu01");
    early.getWaitedBuilder().setNanos(-1);
    assertNoTurn(early, "the time waited must not be negative");
  }

  @Test
  void aRegistryThatStopsEndsItsStreamsAtOnce() {
    Iterator<AwaitTurnResponse> turn = awaitTurn(channel, turn("gpu01"));
    turn.next();
    Iterator<WatchServersResponse> watch =
        stub().watchServers(WatchServersRequest.getDefaultInstance());
    watch.next();
    Beats beats = new Beats();
    RegistryServiceGrpc.newStub(channel.channel())
        .heartbeat(beats)
        .onNext(heartbeat("gpu01", "a", "x"));
    await().atMost(SOON).until(() -> beats.answers.size() == 1);

    long start = System.nanoTime();
    server.close();

    assertThat(TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start)).isLessThan(4);
    assertThatThrownBy(watch::next)
        .isInstanceOf(StatusRuntimeException.class)
        .hasMessage("UNAVAILABLE: this registry is stopping");
    assertThatThrownBy(turn::next).hasMessage("UNAVAILABLE: this registry is stopping");
    await().atMost(SOON).until(() -> beats.failure != null);
  }

  private RpcChannel connect() {
    RpcChannel made = RpcChannel.to(server.address());
    channels.add(made);
    return made;
  }

  private RegistryServiceBlockingStub stub() {
    return RegistryServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(30, TimeUnit.SECONDS);
  }

  private List<String> list(ServerFilter.Builder filter) {
    return stub()
        .listServers(ListServersRequest.newBuilder().setFilter(filter).build())
        .getServersList()
        .stream()
        .map(s -> s.getInfo().getName())
        .toList();
  }

  private void refused(RegisterRequest.Builder request, String message, Status.Code code) {
    assertThatThrownBy(() -> stub().register(request.build()))
        .isInstanceOf(StatusRuntimeException.class)
        .hasMessageContaining(message)
        .extracting(e -> ((StatusRuntimeException) e).getStatus().getCode())
        .isEqualTo(code);
  }

  private static AwaitTurnRequest.Builder turn(String... servers) {
    return AwaitTurnRequest.newBuilder().addAllServers(List.of(servers));
  }

  private static Iterator<AwaitTurnResponse> awaitTurn(
      RpcChannel connection, AwaitTurnRequest.Builder request) {
    return RegistryServiceGrpc.newBlockingStub(connection.channel())
        .withDeadlineAfter(30, TimeUnit.SECONDS)
        .awaitTurn(request.build());
  }

  private void assertNoTurn(AwaitTurnRequest.Builder request, String message) {
    assertThatThrownBy(() -> awaitTurn(channel, request).next())
        .isInstanceOf(StatusRuntimeException.class)
        .hasMessageStartingWith("INVALID_ARGUMENT: " + message);
  }

  private static Watcher watch(Channel connection, int messages) {
    Watcher watcher = new Watcher(messages);
    RegistryServiceGrpc.newStub(connection)
        .watchServers(WatchServersRequest.getDefaultInstance(), watcher);
    return watcher;
  }

  private static long usedMemory() {
    Runtime runtime = Runtime.getRuntime();
    runtime.gc();
    return runtime.totalMemory() - runtime.freeMemory() + PlatformDependent.usedDirectMemory();
  }

  /** A watcher that reads as many messages as it says. */
  private static final class Watcher
      implements ClientResponseObserver<WatchServersRequest, WatchServersResponse> {
    private final int first;
    private final Map<String, Server> known = new ConcurrentHashMap<>();
    private final AtomicInteger messages = new AtomicInteger();
    private volatile boolean complete;
    private ClientCallStreamObserver<WatchServersRequest> requests;

    Watcher(int first) {
      this.first = first;
    }

    Server last(String name) {
      return known.get(name);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<WatchServersRequest> stream) {
      requests = stream;
      stream.disableAutoRequestWithInitial(first);
    }

    @Override
    public void onNext(WatchServersResponse response) {
      messages.incrementAndGet();
      response.getServersList().forEach(server -> known.put(server.getInfo().getName(), server));
      complete |= response.getComplete();
    }

    @Override
    public void onError(Throwable failure) {}

    @Override
    public void onCompleted() {}
  }

  /** What a server hears. */
  private static final class Beats implements StreamObserver<HeartbeatResponse> {
    private final List<HeartbeatResponse> answers = new CopyOnWriteArrayList<>();
    private volatile Throwable failure;

    @Override
    public void onNext(HeartbeatResponse response) {
      answers.add(response);
    }

    @Override
    public void onError(Throwable why) {
      failure = why;
    }

    @Override
    public void onCompleted() {}
  }
}
