package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.client.call.RegistryClient;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import berth.client.cluster.TaskResult.End;
import berth.client.spec.RunSpec;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.RunServer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.Lifetime;
import berth.v1.Reservation;
import berth.v1.ReserveRequest;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Clusters on three servers with simulated GPUs, whose tasks are plain processes. */
class ClusterTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @TempDir private static Path folder;
  private static Daemon registry;
  private static RegistryClient client;
  private static List<RunServer> servers;

  private final Map<TaskName, StringBuffer> output = new ConcurrentHashMap<>();
  private final List<ClusterEvent> events = new CopyOnWriteArrayList<>();

  @BeforeAll
  static void start() throws IOException {
    registry = Daemon.start(folder, "berth-registry");
    client = RegistryClient.of(List.of(Address.parse(registry.address(), 0)));
    servers = new ArrayList<>();
    servers.add(server("gpu1", 4, "22000-22099"));
    servers.add(server("gpu2", 4, "22100-22199"));
    servers.add(server("gpu3", 2, "22200-22299"));
    await().atMost(PATIENCE).until(() -> client.servers().size() == 3);
  }

  // Locks of their own, as on machines of their own; so their ports must not be the same.
  private static RunServer server(String name, int gpus, String ports) throws IOException {
    return new RunServer(
        Files.createDirectory(folder.resolve(name)),
        "--name",
        name,
        "--runtime",
        "process",
        "--allow-root",
        "--simulate-gpus",
        Integer.toString(gpus),
        "--port-range",
        ports,
        "--registry",
        registry.address());
  }

  @AfterEach
  void leavesNothing() {
    servers.forEach(RunServer::assertNothingLeft);
  }

  @AfterAll
  static void stop() {
    servers.forEach(RunServer::close);
    client.close();
    registry.close();
  }

  private static ClusterRequest.Builder cluster(String script) {
    return ClusterRequest.named("test").all(task -> task.command("sh", "-c", script));
  }

  private static Consumer<RunSpec.Builder> gpus(int count) {
    return task -> task.gpus(count);
  }

  private static final Consumer<RunSpec.Builder> NOTHING_MORE = task -> {};

  private Cluster begin(ClusterRequest request) {
    return Cluster.start(client, request, this::note);
  }

  private ClusterResult run(ClusterRequest request) {
    try (Cluster cluster = begin(request)) {
      return cluster.await();
    }
  }

  private void note(ClusterEvent event) {
    events.add(event);
    if (event instanceof ClusterEvent.Output printed) {
      output
          .computeIfAbsent(printed.task(), task -> new StringBuffer())
          .append(new String(printed.data(), StandardCharsets.UTF_8));
    }
  }

  private String printed(String type, int index) {
    return output.getOrDefault(new TaskName(type, index), new StringBuffer()).toString();
  }

  private static TaskResult of(ClusterResult result, String type, int index) {
    return result.tasks().stream()
        .filter(task -> task.task().equals(new TaskName(type, index)))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void everyTaskKnowsWhereAllAre() {
    ClusterResult result =
        run(
            cluster(
                    "echo $TF_CONFIG; cat .cluster/tf_config.json; echo; cat .cluster/cluster.csv;"
                        + " echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT;"
                        + " echo GPUs $NV_GPU; echo {job_name} {task_index} {ps_hosts}")
                .task("chief", 1, gpus(1))
                .task("worker", 2, gpus(2))
                .task("ps", 1, NOTHING_MORE)
                .build());

    assertThat(result.outcome()).as(result.toString()).isEqualTo(Outcome.SUCCEEDED);
    assertThat(result.exitCode()).isZero();
    String[] lines = printed("worker", 1).split("\n");
    assertThat(lines[0])
        .matches(
            "\\{\"cluster\":\\{\"chief\":\\[\"127.0.0.1:22\\d+\"],\"worker\":\\[\"127.0.0.1:22\\d+\","
                + "\"127.0.0.1:22\\d+\"],\"ps\":\\[\"127.0.0.1:22\\d+\"]},"
                + "\"task\":\\{\"type\":\"worker\",\"index\":1},\"environment\":\"cloud\"}");
    assertThat(lines[1]).isEqualTo(lines[0]);
    assertThat(lines[2]).matches("127.0.0.1,22\\d+,chief");
    assertThat(lines[5]).matches("127.0.0.1,22\\d+,ps");
    assertThat(lines[6]).matches("rank 2 of 3 at 127.0.0.1:22\\d+");
    assertThat(lines[7]).matches("GPUs \\d,\\d");
    assertThat(lines[8]).matches("worker 1 127.0.0.1:22\\d+");
    assertThat(events).anyMatch(ClusterEvent.AllStarted.class::isInstance);
  }

  @Test
  void whoNeverEndsIsStoppedWhenTheTrainingIsDone() {
    ClusterResult result =
        run(
            cluster("if [ {job_name} = worker ]; then exit 0; fi; exec sleep 1000")
                .task("worker", 2, gpus(1))
                .task("ps", 2, NOTHING_MORE)
                .task("evaluator", 1, NOTHING_MORE)
                .evaluatorGrace(Duration.ofSeconds(1))
                .build());

    assertThat(result.outcome()).isEqualTo(Outcome.SUCCEEDED);
    assertThat(result.tasks())
        .extracting(TaskResult::end)
        .containsExactly(End.FINISHED, End.FINISHED, End.STOPPED, End.STOPPED, End.STOPPED);
    assertThat(of(result, "ps", 1).exitCode()).hasValue(143);
    assertThat(events)
        .contains(new ClusterEvent.Note("the training is over; evaluator:0 may continue for 1 s"));
  }

  @Test
  void aFailedTaskStopsTheOthersAndIsToBlame() {
    ClusterResult result =
        run(
            cluster("[ {job_name}:{task_index} = worker:1 ] && exit 3; exec sleep 1000")
                .task("chief", 1, gpus(1))
                .task("worker", 2, gpus(1))
                .task("ps", 1, NOTHING_MORE)
                .build());

    assertThat(result.outcome()).isEqualTo(Outcome.FAILED);
    assertThat(result.exitCode()).isEqualTo(3);
    assertThat(result.why()).matches("worker:1 on gpu\\d ended with exit code 3");
    assertThat(of(result, "worker", 1).why()).isEqualTo("exit code 3");
    assertThat(of(result, "chief", 0).end()).isEqualTo(End.CANCELLED);
  }

  @Test
  void itsTimeIsLimited() {
    ClusterResult result =
        run(
            cluster("exec sleep 1000")
                .task("worker", 2, gpus(1))
                .task("ps", 1, NOTHING_MORE)
                .timeLimit(Duration.ofMillis(500))
                .build());

    assertThat(result.outcome()).isEqualTo(Outcome.TIME_LIMIT);
    assertThat(result.exitCode()).isEqualTo(124);
  }

  @Test
  void whatCannotBeStartedIsToBlame() {
    ClusterResult result =
        run(
            cluster("exec sleep 1000")
                .task("worker", 1, gpus(1))
                .task("ps", 1, ps -> ps.mount("/etc", "/etc", true))
                .build());

    assertThat(result.outcome()).isEqualTo(Outcome.FAILED);
    assertThat(result.why())
        .startsWith("ps:0 on gpu")
        .contains("could not be started: ")
        .contains("/etc");
  }

  @Test
  void canBeStoppedAndKilled() {
    String stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    Cluster cluster =
        begin(cluster(stubborn).task("worker", 2, gpus(1)).stopGrace(PATIENCE).build());
    await()
        .atMost(PATIENCE)
        .until(
            () -> printed("worker", 0).contains("ready") && printed("worker", 1).contains("ready"));

    cluster.stop();
    assertThat(cluster.ended()).isNotDone();
    cluster.kill();

    assertThat(cluster.await().outcome()).isEqualTo(Outcome.CANCELLED);
    assertThat(of(cluster.await(), "worker", 1).exitCode()).hasValue(137);
  }

  @Test
  void closingEndsIt() {
    Cluster cluster = begin(cluster("exec sleep 1000").task("worker", 3, gpus(2)).build());
    cluster.started().join();

    cluster.close();

    assertThat(servers).allSatisfy(server -> assertThat(server.held()).isEmpty());
  }

  @Test
  void whatAListenerThrowsEndsIt() {
    Cluster cluster =
        Cluster.start(
            client,
            cluster("echo here; exec sleep 1000").task("worker", 2, gpus(1)).build(),
            event -> {
              if (event instanceof ClusterEvent.Output) {
                throw new IllegalStateException("nobody reads this");
              }
            });

    assertThatThrownBy(cluster::await).hasMessage("nobody reads this");
  }

  @Test
  void waitsUntilEverythingIsFreeAndHoldsNothingMeanwhile() {
    Reservation held = reserve(servers.get(1), 3);
    Cluster cluster = begin(cluster("echo $NV_GPU").task("worker", 2, gpus(4)).build());
    await()
        .atMost(PATIENCE)
        .until(() -> events.stream().anyMatch(ClusterEvent.Waiting.class::isInstance));
    assertThat(servers.get(0).held()).isEmpty();
    assertThat(events)
        .first()
        .hasToString(
            "Waiting[why=there is no room for worker:1, which needs 4 GPUs, after 1 of 2 tasks:"
                + " gpu1 has 0 of 4 GPUs free after 1 task; gpu2 has 1 of 4 GPUs free; gpu3 has 2"
                + " of 2 GPUs free]");

    servers.get(1).reservations().release(held.getReservationId(), PATIENCE);

    assertThat(cluster.await().outcome()).isEqualTo(Outcome.SUCCEEDED);
  }

  @Test
  void doesNotWaitLongerThanItMay() {
    Reservation held = reserve(servers.get(1), 3);
    ClusterRequest.Builder request = cluster("true").task("worker", 2, gpus(4));

    assertThatThrownBy(() -> run(request.waitAtMost(Duration.ZERO).build()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED))
        .hasMessageStartingWith("there is no room for worker:1");
    assertThatThrownBy(() -> run(request.waitAtMost(Duration.ofSeconds(1)).build()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.TIMED_OUT))
        .hasMessageStartingWith(
            "waited 1 s for room for the cluster test: there is no room for worker:1");

    servers.get(1).reservations().release(held.getReservationId(), PATIENCE);
  }

  @Test
  void whoWaitsBehindAnotherClusterIsToldSo() {
    Reservation held = reserve(servers.get(1), 3);
    try (Cluster first = begin(cluster("true").name("first").task("worker", 2, gpus(4)).build())) {
      await().atMost(PATIENCE).until(() -> !events.isEmpty());

      assertThatThrownBy(
              () ->
                  run(
                      cluster("true")
                          .task("worker", 1, gpus(1))
                          .waitAtMost(Duration.ofSeconds(1))
                          .build()))
          .hasMessageContaining("1 cluster comes before it, next cluster first of ");
      assertThat(first.ended()).isNotDone();
    } finally {
      servers.get(1).reservations().release(held.getReservationId(), PATIENCE);
    }
  }

  @Test
  void whatNoServerWillEverHaveIsRefusedAtOnce() {
    assertThatThrownBy(() -> run(cluster("true").task("worker", 1, gpus(5)).build()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessageStartingWith("there is no server for worker:0, which needs 5 GPUs");
  }

  @Test
  void aPortThatIsInUseIsNotGivenToATask() throws IOException {
    List<ServerSocket> taken = new ArrayList<>();
    try {
      for (int port = 22200; port < 22299; port++) {
        ServerSocket socket = new ServerSocket();
        socket.bind(new InetSocketAddress(port));
        taken.add(socket);
      }

      ClusterResult result =
          run(cluster("echo {port}").task("worker", 1, task -> task.servers("gpu3")).build());

      assertThat(result.succeeded()).isTrue();
      assertThat(printed("worker", 0)).isEqualTo("22299\n");
    } finally {
      for (ServerSocket socket : taken) {
        socket.close();
      }
    }
  }

  private static Reservation reserve(RunServer server, int gpus) {
    Reservation held =
        server.reserve(
            ReserveRequest.newBuilder()
                .setGpus(GpuRequest.newBuilder().setCount(gpus))
                .setLifetime(
                    Lifetime.newBuilder()
                        .setRenewals(com.google.protobuf.Duration.newBuilder().setSeconds(300)))
                .build());
    // Else the plan would be made from what was free before.
    await()
        .atMost(PATIENCE)
        .until(
            () -> client.servers().stream().mapToInt(each -> each.freeGpus()).sum() == 10 - gpus);
    return held;
  }
}
