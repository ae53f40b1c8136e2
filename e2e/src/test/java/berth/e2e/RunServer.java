package berth.e2e;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.FollowedRun;
import berth.client.call.ReservationClient;
import berth.client.call.RunClient;
import berth.rpc.Address;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.Reservation;
import berth.v1.ReserveRequest;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;

/**
 * A {@code berthd} that runs code, and clients of it. It can be killed and started again: it keeps
 * its address, its locks and its state.
 */
final class RunServer implements AutoCloseable {
  static final Duration TIMEOUT = Duration.ofSeconds(30);
  // A keeper whose server was killed in the moment of its start lives as long as its lease.
  private static final Duration SOON = Duration.ofSeconds(40);

  private final Path folder;
  private final Map<String, String> environment;
  private final List<String> options;
  private final List<AutoCloseable> clients = new ArrayList<>();
  private RunClient runs;
  private ReservationClient reservations;
  private Daemon daemon;

  /**
   * @param folder for its locks, state and log
   */
  RunServer(Path folder, String... options) {
    this(folder, Map.of(), options);
  }

  RunServer(Path folder, Map<String, String> environment, String... options) {
    int port = freePort();
    try {
      this.folder = folder.toRealPath();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    this.environment = environment;
    this.options = new ArrayList<>(List.of("--listen", "127.0.0.1:" + port));
    this.options.addAll(Arrays.asList(options));
    start();
  }

  /**
   * A port that nobody has: not one that the kernel gives to those who connect while a daemon is
   * not there, and none of those that servers give to tasks in tests.
   */
  static int freePort() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(26_000, 32_000);
      try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return socket.getLocalPort();
      } catch (IOException e) {
        // Somebody has it.
      }
    }
  }

  /** Starts it again, for new clients too: those of the killed one only come back in time. */
  void start() {
    daemon = Daemon.start(folder, environment, "berthd", options.toArray(String[]::new));
    Address address = Address.parse(daemon.address(), 0);
    runs = RunClient.of(address);
    reservations = ReservationClient.of(address);
    clients.add(runs);
    clients.add(reservations);
  }

  void kill() throws InterruptedException {
    daemon.kill();
  }

  Daemon daemon() {
    return daemon;
  }

  RunClient runs() {
    return runs;
  }

  ReservationClient reservations() {
    return reservations;
  }

  Path state() {
    return folder.resolve("state");
  }

  Path lockOfGpu(int index) {
    return folder.resolve("locks").resolve("tmp_lock_gpu" + index);
  }

  /** Runs code, and goes on to listen over restarts of the server. */
  Heard run(RunCodeRequest.Builder request) {
    RunClient client = runs;
    return Heard.from(0, heard -> new FollowedRun(client, heard).run(request.build()));
  }

  /** Attaches, as {@link #run} does. */
  Heard attach(String runId, long offset) {
    AttachRunRequest request =
        AttachRunRequest.newBuilder().setRunId(runId).setFromOffset(offset).build();
    RunClient client = runs;
    return Heard.from(offset, heard -> new FollowedRun(client, heard).attach(request));
  }

  Reservation reserve(ReserveRequest request) {
    AtomicReference<Reservation> granted = new AtomicReference<>();
    reservations.reserve(request, response -> granted.set(response.getGranted()));
    return granted.get();
  }

  Run get(String runId) {
    return runs.getRun(runId, TIMEOUT);
  }

  Path runFolder(String runId) {
    return state().resolve("runs").resolve(runId);
  }

  /** Where a run is in its life, as the server has written it down; empty before that. */
  String phase(String runId) {
    try {
      Properties properties = new Properties();
      try (var in = Files.newInputStream(runFolder(runId).resolve("state"))) {
        properties.load(in);
      }
      return properties.getProperty("phase", "");
    } catch (IOException e) {
      return "";
    }
  }

  /**
   * Checks that runs have left nothing: no reservation, no process of theirs, no pipes; and of
   * failed uploads no files. What is left is removed, so that the next test is on its own.
   */
  void assertNothingLeft() {
    try {
      // The last things go in the moment in which the caller hears of the end.
      await()
          .atMost(SOON)
          .untilAsserted(
              () -> {
                assertThat(unfinished()).isEmpty();
                assertThat(held()).isEmpty();
                assertThat(processes()).isEmpty();
                assertThat(pipes()).isEmpty();
                assertThat(filesBelow(state().resolve("bundles")))
                    .allMatch(file -> file.matches("[0-9a-f]{64}(\\.tar)?"));
              });
    } finally {
      unfinished().forEach(this::kill);
      held().forEach(id -> reservations.release(id, TIMEOUT));
    }
  }

  private List<String> unfinished() {
    return runs.listRuns(TIMEOUT).getRunsList().stream()
        .filter(run -> run.getState() != RunState.RUN_STATE_ENDED)
        .map(Run::getRunId)
        .toList();
  }

  /** The reservations that there are, by their names. */
  List<String> held() {
    return reservations.listReservations(TIMEOUT).getReservationsList().stream()
        .map(Reservation::getReservationId)
        .toList();
  }

  private void kill(String runId) {
    runs.cancelRun(CancelRunRequest.newBuilder().setRunId(runId).setForce(true).build(), TIMEOUT);
    attach(runId, 0).exited();
  }

  private List<String> processes() {
    return Leftovers.processesIn(folder).stream()
        .filter(process -> !process.startsWith(daemon.pid() + " "))
        .toList();
  }

  private List<Path> pipes() throws IOException {
    if (!Files.exists(state().resolve("runs"))) {
      return List.of();
    }
    try (Stream<Path> folders = Files.list(state().resolve("runs"))) {
      return folders.map(run -> run.resolve("io")).filter(Files::exists).toList();
    }
  }

  private static List<String> filesBelow(Path folder) {
    return Files.exists(folder) ? Leftovers.filesIn(folder) : List.of();
  }

  /** Stops it, and checks that it leaves no process. */
  @Override
  public void close() {
    try {
      for (AutoCloseable client : clients) {
        client.close();
      }
      daemon.stop();
    } catch (Exception e) {
      throw new AssertionError(e);
    } finally {
      daemon.close();
    }
    assertThat(Leftovers.processesIn(folder)).isEmpty();
  }
}
