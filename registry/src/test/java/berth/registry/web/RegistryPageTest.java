package berth.registry.web;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;
import static org.awaitility.Awaitility.await;

import berth.http.HttpServer;
import berth.metrics.Metrics;
import berth.registry.directory.Directory;
import berth.registry.directory.DirectoryMetrics;
import berth.registry.directory.LeaseTerms;
import berth.registry.directory.MemoryDirectory;
import berth.rpc.Address;
import berth.rpc.Messages;
import berth.rpc.Vitals;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.ExitReason;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GpuHealth;
import berth.v1.GpuHealthState;
import berth.v1.GpuHistory;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.OutputStream;
import berth.v1.Owner;
import berth.v1.RecentRuns;
import berth.v1.RegisterRequest;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import berth.v1.RunState;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Source;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import berth.v1.UnreservedUse;
import berth.v1.Waiting;
import berth.v1.WatchOverviewResponse;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import io.grpc.stub.ServerCallStreamObserver;
import java.io.InputStream;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The page's side of the wire, over real connections. */
@Timeout(60)
class RegistryPageTest {
  private static final Instant NOON = Instant.parse("2026-11-16T12:00:00Z");
  private static final long NOON_MILLIS = NOON.toEpochMilli();
  private static final FleetBroadcast.Timing QUICK =
      new FleetBroadcast.Timing(
          Duration.ofMillis(20), Duration.ofMillis(50), Duration.ofHours(1), Duration.ofMillis(20));

  private final Directory directory =
      new MemoryDirectory(
          new LeaseTerms(Duration.ofMinutes(5), 1000),
          new DirectoryMetrics(new Metrics()),
          new Vitals());
  private final FakeBerthd gpu01 = new FakeBerthd("gpu01");
  private final HttpClient client = HttpClient.newHttpClient();
  private RegistryPage page = new RegistryPage("lab", directory::roster, false, QUICK);
  private HttpServer http = serve();

  @AfterEach
  void close() {
    http.close();
    page.close();
    gpu01.close();
    directory.close();
  }

  private HttpServer serve() {
    HttpServer.Builder server = HttpServer.listenOn(new Address("127.0.0.1", 0));
    page.addTo(server);
    return server.start();
  }

  private void allowToCancel() {
    http.close();
    page.close();
    page = new RegistryPage("lab", directory::roster, true, QUICK);
    http = serve();
  }

  private void register(FakeBerthd server, GpuState... gpus) {
    ServerInfo.Builder info =
        ServerInfo.newBuilder()
            .setName(server.name())
            .setAddress(server.address().toString())
            .setSimulated(true);
    ServerStatus.Builder status = ServerStatus.newBuilder().setCanRun(true);
    for (int i = 0; i < gpus.length; i++) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(i)
              .setUuid("GPU-" + server.name() + "-" + i)
              .setModel("A100")
              .setMemoryBytes(80L << 30));
      status.addGpus(GpuStatus.newBuilder().setIndex(i).setState(gpus[i]));
    }
    directory.register(
        RegisterRequest.newBuilder()
            .setInfo(info)
            .setStatus(status)
            .setInstance("i-" + server.name())
            .build());
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create("http://" + http.address() + path));
  }

  private HttpResponse<String> get(String path) throws Exception {
    return client.send(request(path).build(), HttpResponse.BodyHandlers.ofString());
  }

  private HttpResponse<String> post(String path, String... headers) throws Exception {
    HttpRequest.Builder request = request(path).POST(HttpRequest.BodyPublishers.noBody());
    if (headers.length > 0) {
      request.headers(headers);
    }
    return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
  }

  private Events events(String path, String... headers) throws Exception {
    HttpRequest.Builder request = request(path);
    if (headers.length > 0) {
      request.headers(headers);
    }
    HttpResponse<InputStream> response =
        client.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
    assertThat(response.statusCode()).isEqualTo(200);
    return new Events(response.body());
  }

  private static JsonObject gpu(JsonObject server, int index) {
    return server.getAsJsonArray("gpus").get(index).getAsJsonObject();
  }

  private static String text(JsonObject object, String name) {
    return object.get(name).getAsString();
  }

  @Test
  void aViewerIsGreetedAndToldOfAllServers() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE, GpuState.GPU_STATE_UNHEALTHY);

    try (Events wall = events("/api/wall")) {
      JsonObject hello = wall.next("hello");
      assertThat(text(hello, "registry")).isEqualTo("lab");
      assertThat(hello.get("mayCancel").getAsBoolean()).isFalse();
      JsonObject servers = wall.next("servers");
      assertThat(servers.get("reset").getAsBoolean()).isTrue();
      JsonObject server = servers.getAsJsonArray("servers").get(0).getAsJsonObject();
      assertThat(text(server, "name")).isEqualTo("gpu01");
      assertThat(text(server, "state")).isEqualTo("up");
      assertThat(server.get("simulated").getAsBoolean()).isTrue();
      assertThat(text(gpu(server, 0), "state")).isEqualTo("free");
      assertThat(text(gpu(server, 1), "state")).isEqualTo("unhealthy");
    }
  }

  @Test
  void samplesComeInOneEventAndChangeNothingElse() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE, GpuState.GPU_STATE_FREE);
    gpu01.first = gpu01.sample(0, 0);

    try (Events wall = events("/api/wall")) {
      wall.server("gpu01", server -> text(server, "driver").equals("550"));
      gpu01.tell(gpu01.sample(42, 7));
      Events.Event next;
      do {
        next = wall.next();
      } while (next.name().equals("samples") && !next.data().toString().contains("42"));

      assertThat(next.name()).isEqualTo("samples");
      assertThat(next.data().getAsJsonObject("s").get("gpu01").toString())
          .isEqualTo("[[42,3072,null,62],[7,3072,null,62]]");
    }
  }

  @Test
  void whoHoldsAGpuAndWhoWaitsIsShown() throws Exception {
    register(gpu01, GpuState.GPU_STATE_RESERVED, GpuState.GPU_STATE_USED);
    gpu01.first =
        gpu01.sample(1, 2).toBuilder()
            .setReservations(
                ListReservationsResponse.newBuilder()
                    .addReservations(
                        Reservation.newBuilder()
                            .setReservationId("r-1")
                            .addGpus(ReservedGpu.newBuilder().setUuid("GPU-gpu01-0"))
                            .setOwner(Owner.newBuilder().setUser("<ann>").setHost("lap"))
                            .setPurpose("</script>")
                            .setGrantedAt(Messages.timestamp(NOON)))
                    .addWaiting(Waiting.newBuilder().setOwner(Owner.newBuilder().setUser("bob")))
                    .addUnreservedUse(
                        UnreservedUse.newBuilder().setIndex(1).setUuid("GPU-gpu01-1").addPids(77)))
            .build();

    try (Events wall = events("/api/wall")) {
      JsonObject server = wall.server("gpu01", now -> !gpu(now, 0).get("holder").isJsonNull());
      JsonObject holder = gpu(server, 0).getAsJsonObject("holder");
      assertThat(text(holder, "user")).isEqualTo("<ann>");
      assertThat(text(holder, "purpose")).isEqualTo("</script>");
      assertThat(holder.get("since").getAsLong()).isEqualTo(NOON_MILLIS);
      assertThat(holder.get("until").isJsonNull()).isTrue();
      assertThat(text(gpu(server, 1), "state")).isEqualTo("used");
      assertThat(text(server.getAsJsonArray("queue").get(0).getAsJsonObject(), "user"))
          .isEqualTo("bob");
    }
  }

  @Test
  void whatIsRenewedHasNoEndToWaitFor() throws Exception {
    register(gpu01, GpuState.GPU_STATE_RESERVED, GpuState.GPU_STATE_RESERVED);
    gpu01.first =
        gpu01.sample(1, 2).toBuilder()
            .setReservations(
                ListReservationsResponse.newBuilder()
                    .addReservations(ending("r-1", "GPU-gpu01-0"))
                    .addReservations(ending("r-2", "GPU-gpu01-1").setRenewed(true)))
            .build();

    try (Events wall = events("/api/wall")) {
      JsonObject server = wall.server("gpu01", now -> !gpu(now, 1).get("holder").isJsonNull());
      assertThat(gpu(server, 0).getAsJsonObject("holder").get("until").getAsLong())
          .isEqualTo(NOON_MILLIS);
      assertThat(gpu(server, 1).getAsJsonObject("holder").get("until").isJsonNull()).isTrue();
    }
  }

  private static Reservation.Builder ending(String id, String gpu) {
    return Reservation.newBuilder()
        .setReservationId(id)
        .addGpus(ReservedGpu.newBuilder().setUuid(gpu))
        .setExpiresAt(Messages.timestamp(NOON));
  }

  @Test
  void runsAndClustersAreShown() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    gpu01.first =
        WatchOverviewResponse.newBuilder()
            .setRuns(
                RecentRuns.newBuilder()
                    .addRuns(
                        Run.newBuilder()
                            .setRunId("run-1")
                            .setState(RunState.RUN_STATE_ENDED)
                            .setRequest(
                                RunCodeRequest.newBuilder()
                                    .setImage("busybox:1")
                                    .addCommand("true")
                                    .setName("worker:1 of cluster mnist"))
                            .setExited(
                                RunExited.newBuilder()
                                    .setReason(ExitReason.EXIT_REASON_OUT_OF_MEMORY)
                                    .setMessage("it used more than 1 GiB")))
                    .addRuns(
                        Run.newBuilder()
                            .setRunId("run-2")
                            .setState(RunState.RUN_STATE_QUEUED)
                            .setWaitingBecause("Docker does not answer")))
            .setClusters(
                ListClustersResponse.newBuilder()
                    .addClusters(
                        ClusterStatus.newBuilder()
                            .setClusterId("c-1")
                            .setName("mnist")
                            .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
                            .addTasks(
                                TaskStatus.newBuilder()
                                    .setType("worker")
                                    .setIndex(1)
                                    .setRestarts(3)
                                    .addAttempts(TaskAttempt.newBuilder().setServer("gpu07")))))
            .build();

    try (Events wall = events("/api/wall")) {
      JsonObject server = wall.server("gpu01", now -> !now.getAsJsonArray("runs").isEmpty());
      JsonObject run = server.getAsJsonArray("runs").get(0).getAsJsonObject();
      assertThat(text(run, "state")).isEqualTo("ended");
      assertThat(text(run, "reason")).isEqualTo("out_of_memory");
      assertThat(text(run, "program")).isEqualTo("true");
      assertThat(text(run, "environment")).isEqualTo("busybox:1");
      assertThat(text(run, "cluster")).isEqualTo("mnist");
      assertThat(run.get("exitCode").isJsonNull()).isTrue();
      assertThat(text(run, "waitingBecause")).isEmpty();
      JsonObject waiting = server.getAsJsonArray("runs").get(1).getAsJsonObject();
      assertThat(text(waiting, "state")).isEqualTo("queued");
      assertThat(text(waiting, "waitingBecause")).isEqualTo("Docker does not answer");
      JsonObject cluster = server.getAsJsonArray("clusters").get(0).getAsJsonObject();
      assertThat(text(cluster, "phase")).isEqualTo("running");
      JsonObject task = cluster.getAsJsonArray("tasks").get(0).getAsJsonObject();
      assertThat(text(task, "name")).isEqualTo("worker:1");
      assertThat(task.get("restarts").getAsInt()).isEqualTo(3);
    }
  }

  private static Run.Builder runOf(RunCodeRequest.Builder request) {
    return Run.newBuilder().setRunId("run-1").setRequest(request);
  }

  @Test
  void aRunsProgramIsItsScriptOrCommandBesideTheService() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    Source script = Source.newBuilder().setFileName("train.py").build();
    gpu01.first =
        WatchOverviewResponse.newBuilder()
            .setRuns(
                RecentRuns.newBuilder()
                    .addRuns(
                        runOf(
                            RunCodeRequest.newBuilder()
                                .setService("tensorflow")
                                .setSource(script)
                                .addAllCommand(List.of("bert", "30"))))
                    .addRuns(
                        runOf(
                            RunCodeRequest.newBuilder()
                                .setService("tensorflow")
                                .addAllCommand(
                                    List.of(
                                        "sh", "-c", "pip ...", "berth-pip", "python3", "a.py"))))
                    .addRuns(
                        runOf(RunCodeRequest.newBuilder().addAllCommand(List.of("sh", "-c", "ls"))))
                    .addRuns(runOf(RunCodeRequest.newBuilder().setImage("busybox:1"))))
            .build();

    try (Events wall = events("/api/wall")) {
      JsonArray runs =
          wall.server("gpu01", now -> !now.getAsJsonArray("runs").isEmpty()).getAsJsonArray("runs");
      assertThat(runs)
          .extracting(
              run -> text(run.getAsJsonObject(), "program"),
              run -> text(run.getAsJsonObject(), "environment"))
          .containsExactly(
              tuple("train.py bert 30", "tensorflow"),
              tuple("python3 a.py", "tensorflow"),
              tuple("sh -c ls", ""),
              tuple("", "busybox:1"));
    }
  }

  @Test
  void aServerThatCannotBeWatchedSaysWhyAndComesBack() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    gpu01.first = gpu01.sample(1);

    try (Events wall = events("/api/wall")) {
      wall.server("gpu01", server -> text(server, "driver").equals("550"));
      gpu01.stop();
      JsonObject away = wall.server("gpu01", server -> text(server, "state").equals("unreachable"));
      assertThat(text(away, "why")).isNotEmpty();
      gpu01.start();
      wall.server("gpu01", server -> text(server, "state").equals("up"));
    }
  }

  @Test
  void aServerThatNobodyCanCallDoesNotHideTheOthers() throws Exception {
    directory.register(
        RegisterRequest.newBuilder()
            .setInfo(ServerInfo.newBuilder().setName("a-bad-one").setAddress("gpu_01:18812"))
            .setInstance("i-bad")
            .build());
    register(gpu01, GpuState.GPU_STATE_FREE);
    gpu01.first = gpu01.sample(1);

    try (Events wall = events("/api/wall")) {
      wall.server("gpu01", server -> text(server, "driver").equals("550"));
    }
    try (Events wall = events("/api/wall")) {
      JsonObject bad =
          wall.server("a-bad-one", server -> text(server, "state").equals("unreachable"));
      assertThat(text(bad, "why")).contains("gpu_01");
    }
  }

  @Test
  void ofAGpuThatDoesNotAnswerNoOldValuesAreShown() throws Exception {
    register(gpu01, GpuState.GPU_STATE_UNHEALTHY);
    WatchOverviewResponse.Builder silent = gpu01.sample(42).toBuilder();
    silent
        .getReportBuilder()
        .getGpusBuilder(0)
        .setHealth(
            GpuHealth.newBuilder()
                .setState(GpuHealthState.GPU_HEALTH_STATE_UNKNOWN)
                .setReason("the driver hangs"));
    gpu01.first = silent.build();

    try (Events wall = events("/api/wall")) {
      assertThat(wall.next("samples").getAsJsonObject("s").get("gpu01").toString())
          .isEqualTo("[[null,null,null,null]]");
    }
  }

  @Test
  void ofASickGpuIsShownWhyAndWhatToDo() throws Exception {
    register(gpu01, GpuState.GPU_STATE_UNHEALTHY);
    WatchOverviewResponse.Builder sick = gpu01.sample(0).toBuilder();
    sick.getReportBuilder()
        .getGpusBuilder(0)
        .setHealth(
            GpuHealth.newBuilder()
                .setState(GpuHealthState.GPU_HEALTH_STATE_SICK)
                .setReason("XID 95, uncontained memory error")
                .setAdvice("nvidia-smi --gpu-reset -i 0"));
    gpu01.first = sick.build();

    try (Events wall = events("/api/wall")) {
      JsonObject server =
          wall.server("gpu01", shown -> !text(gpu(shown, 0), "healthAdvice").isEmpty());
      assertThat(text(gpu(server, 0), "healthReason"))
          .isEqualTo("XID 95, uncontained memory error");
      assertThat(text(gpu(server, 0), "healthAdvice")).isEqualTo("nvidia-smi --gpu-reset -i 0");
    }
  }

  @Test
  void aServerThatIsGoneStaysToBeSeenAndComesBack() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);

    try (Events wall = events("/api/wall")) {
      wall.server("gpu01", server -> text(server, "state").equals("up"));
      directory.deregister("gpu01", "i-gpu01");
      JsonObject gone = wall.server("gpu01", server -> text(server, "state").equals("gone"));
      assertThat(gone.get("since").getAsLong()).isPositive();
      assertThat(gone.getAsJsonArray("gpus")).hasSize(1);
      assertThat(get("/api/servers/gpu01/history").statusCode()).isEqualTo(404);
      register(gpu01, GpuState.GPU_STATE_FREE);
      wall.server("gpu01", server -> text(server, "state").equals("up"));
    }
  }

  @Test
  void serversAreWatchedOnlyWhileSomebodyLooks() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    try (Events one = events("/api/wall");
        Events another = events("/api/wall")) {
      one.next("servers");
      another.next("servers");
      await().until(() -> gpu01.watchers.size() == 1);
    }
    await().until(gpu01.watchers::isEmpty);
    try (Events again = events("/api/wall")) {
      again.next("servers");
      await().until(() -> gpu01.watchers.size() == 1);
    }
  }

  @Tag("slow")
  @Test
  void whoReadsSlowlyIsToldTheNewestStateWhole() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    try (Socket slow = new Socket(http.address().host(), http.address().port());
        Events quick = events("/api/wall")) {
      slow.getOutputStream()
          .write(
              "GET /api/wall HTTP/1.1\r\nHost: localhost\r\n\r\n".getBytes(StandardCharsets.UTF_8));
      await().until(() -> gpu01.watchers.size() == 1);
      // Much more than lies in buffers between the two.
      String much = "x".repeat(500_000);
      for (int i = 0; i < 60; i++) {
        String purpose = i + much;
        gpu01.tell(holder(purpose));
        quick.server(
            "gpu01",
            server ->
                !gpu(server, 0).get("holder").isJsonNull()
                    && text(gpu(server, 0).getAsJsonObject("holder"), "purpose").equals(purpose));
      }
      gpu01.tell(holder("the last"));
      Events late = new Events(slow.getInputStream());
      late.server("gpu01", server -> server.toString().contains("the last"));
    }
  }

  private static WatchOverviewResponse holder(String purpose) {
    return WatchOverviewResponse.newBuilder()
        .setReservations(
            ListReservationsResponse.newBuilder()
                .addReservations(
                    Reservation.newBuilder()
                        .addGpus(ReservedGpu.newBuilder().setUuid("GPU-gpu01-0"))
                        .setPurpose(purpose)))
        .build();
  }

  @Test
  void theLastMinutesAreFetchedFromTheServer() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    gpu01.history =
        GetGpuHistoryResponse.newBuilder()
            .setStep(Messages.duration(Duration.ofSeconds(2)))
            .setEnd(Messages.timestamp(NOON))
            .setAge(Messages.duration(Duration.ofSeconds(1)))
            .addGpus(
                GpuHistory.newBuilder()
                    .setUuid("GPU-gpu01-0")
                    .addAllUtilizationPercent(List.of(-1, 99))
                    .addAllPowerWatts(List.of(50, 300)))
            .build();
    known("gpu01");

    JsonObject history =
        JsonParser.parseString(get("/api/servers/gpu01/history").body()).getAsJsonObject();

    // By the clock of this machine, whatever the server's is.
    assertThat(history.get("end").getAsLong())
        .isBetween(System.currentTimeMillis() - 60_000, System.currentTimeMillis() - 1000);
    JsonObject gpu = history.getAsJsonArray("gpus").get(0).getAsJsonObject();
    assertThat(gpu.get("util").toString()).isEqualTo("[null,99]");
    assertThat(gpu.get("power").toString()).isEqualTo("[50,300]");
  }

  private void known(String server) {
    await().until(() -> get("/api/servers/" + server + "/history").statusCode() == 200);
  }

  @Test
  void aClusterIsShownWithAllAttempts() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    known("gpu01");
    TaskStatus.Builder task = TaskStatus.newBuilder().setType("ps");
    for (int i = 1; i <= 3; i++) {
      task.addAttempts(TaskAttempt.newBuilder().setNumber(i).setExitCode(i));
    }
    gpu01.cluster = ClusterStatus.newBuilder().setClusterId("c-1").addTasks(task).build();

    JsonArray tasks =
        JsonParser.parseString(get("/api/servers/gpu01/clusters/c-1").body())
            .getAsJsonObject()
            .getAsJsonArray("tasks");

    assertThat(tasks.get(0).getAsJsonObject().getAsJsonArray("attempts")).hasSize(3);
  }

  @Test
  void outputIsPassedOnByteForByteHoweverItIsCut() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    known("gpu01");
    gpu01.outputBytes = 70_000;
    byte[] euro = "€".getBytes(StandardCharsets.UTF_8);
    gpu01.onAttach =
        (request, run) -> {
          long offset = request.getFromOffset();
          run.onNext(output(offset, new byte[] {'a', euro[0]}));
          run.onNext(output(offset + 2, new byte[] {euro[1]}));
          run.onNext(output(offset + 3, new byte[] {euro[2], 'b', (byte) 0xff, '\n'}));
          run.onNext(
              RunEvent.newBuilder()
                  .setExited(
                      RunExited.newBuilder()
                          .setExitCode(3)
                          .setReason(ExitReason.EXIT_REASON_FINISHED))
                  .build());
          run.onCompleted();
        };

    try (Events output = events("/api/servers/gpu01/runs/run-1/output")) {
      long begin = 70_000 - (64 << 10);
      Events.Event first = output.next();
      assertThat(text(first.data(), "text")).isEqualTo("a");
      assertThat(first.id()).isEqualTo(Long.toString(begin + 1));
      Events.Event second = output.next();
      assertThat(text(second.data(), "text")).isEqualTo("€b\ufffd\n");
      assertThat(second.id()).isEqualTo(Long.toString(begin + 7));
      assertThat(output.next().data().get("exitCode").getAsInt()).isEqualTo(3);
      assertThat(output.next()).isNull();
    }
    assertThat(gpu01.attached.take().getFromOffset()).isEqualTo(70_000 - (64 << 10));
    assertThat(attachedFrom("?from=5", "Last-Event-ID", "17")).isEqualTo(17);
    assertThat(attachedFrom("?from=5")).isEqualTo(5);
    assertThat(get("/api/servers/gpu01/runs/run-1/output?from=-1").statusCode()).isEqualTo(400);
    try (Events none = events("/api/servers/gpu01/runs/nobody's/output")) {
      // A browser tells a page nothing of a stream that is refused.
      JsonObject failed = none.next("failed");
      assertThat(text(failed, "error")).isEqualTo("there is no such run");
      assertThat(failed.get("again").getAsBoolean()).isFalse();
      assertThat(none.next()).isNull();
    }
  }

  /** Where in the output a reader begins who asks like this. */
  private long attachedFrom(String query, String... headers) throws Exception {
    try (Events output = events("/api/servers/gpu01/runs/run-1/output" + query, headers)) {
      output.next("exited");
      return gpu01.attached.take().getFromOffset();
    }
  }

  private static RunEvent output(long offset, byte[] data) {
    return RunEvent.newBuilder()
        .setOutput(
            RunOutput.newBuilder()
                .setStream(OutputStream.OUTPUT_STREAM_STDOUT)
                .setOffset(offset)
                .setData(ByteString.copyFrom(data)))
        .build();
  }

  @Test
  void outputWaitsForItsReader() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    known("gpu01");
    AtomicInteger sent = new AtomicInteger();
    gpu01.onAttach = (request, run) -> run.setOnReadyHandler(() -> sendWhileReady(run, sent));

    try (Events output = events("/api/servers/gpu01/runs/run-1/output?from=0")) {
      // Endless output does not end up in the memory of the registry.
      int before;
      do {
        before = sent.get();
        await().pollDelay(Duration.ofMillis(300)).until(() -> true);
      } while (sent.get() != before);
      assertThat(sent.get()).isLessThan(2000);
      for (int i = 0; i <= before; i++) {
        output.next();
      }
    }
  }

  private static void sendWhileReady(ServerCallStreamObserver<RunEvent> run, AtomicInteger sent) {
    byte[] piece = "x".repeat(64 << 10).getBytes(StandardCharsets.UTF_8);
    while (run.isReady()) {
      run.onNext(output((long) sent.getAndIncrement() * piece.length, piece));
    }
  }

  @Test
  void thePageOnlyShows() throws Exception {
    register(gpu01, GpuState.GPU_STATE_FREE);
    known("gpu01");

    HttpResponse<String> refused =
        post("/api/servers/gpu01/runs/run-1/cancel", "X-Berth-Page", "1");

    assertThat(refused.statusCode()).isEqualTo(403);
    assertThat(refused.body()).contains("--page-cancel");
    assertThat(gpu01.cancelledRuns).isEmpty();
  }

  @Test
  void whereItIsAllowedOnlyThePageItselfCancels() throws Exception {
    allowToCancel();
    register(gpu01, GpuState.GPU_STATE_FREE);
    known("gpu01");

    // What another page can have a browser send.
    assertThat(post("/api/servers/gpu01/runs/run-1/cancel").statusCode()).isEqualTo(403);
    assertThat(gpu01.cancelledRuns).isEmpty();
    assertThat(post("/api/servers/gpu01/runs/run-1/cancel", "X-Berth-Page", "1").statusCode())
        .isEqualTo(200);
    assertThat(gpu01.cancelledRuns.take().getRunId()).isEqualTo("run-1");
    assertThat(post("/api/servers/gpu01/clusters/c-1/cancel", "X-Berth-Page", "1").statusCode())
        .isEqualTo(200);
    assertThat(gpu01.cancelledClusters.take().getBy().getHost()).isEqualTo("127.0.0.1");
  }

  @Test
  void filesOfThePageAreServedAndNothingElse() throws Exception {
    HttpResponse<String> index = get("/");
    assertThat(index.statusCode()).isEqualTo(200);
    assertThat(index.body()).contains("<script type=\"module\"").doesNotContain("<style");
    String tag = index.headers().firstValue("etag").orElseThrow();
    HttpResponse<String> same =
        client.send(
            request("/").header("If-None-Match", tag).build(),
            HttpResponse.BodyHandlers.ofString());
    assertThat(same.statusCode()).isEqualTo(304);
    for (String name : List.of("nothing.js", "..%2FWall.class", "index.html%00.js", "")) {
      assertThat(get("/page/" + name).statusCode()).isEqualTo(404);
    }
  }
}
