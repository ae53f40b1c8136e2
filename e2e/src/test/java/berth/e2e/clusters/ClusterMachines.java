package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.NetworkNamespace;
import berth.v1.ListReservationsResponse;
import berth.v1.ListRunsResponse;
import berth.v1.Reservation;
import berth.v1.Run;
import berth.v1.RunState;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Three GPU servers, gpu01 to gpu03, each with an engine that has the images of TensorFlow and
 * PyTorch; a registry that knows them; and a user. Each is on a machine of its own as far as
 * networks are concerned, and only the user's commands reach them, not this JVM.
 *
 * <p>The first test that wants them starts them, and they end with the tests, however those end.
 */
final class ClusterMachines implements AutoCloseable {
  /** GPUs of each server. */
  static final int GPUS = 2;

  private static final int COUNT = 3;
  private static final String NETWORK = "10.77.0.";
  private static final String REGISTRY = NETWORK + "100";
  private static final String USER = NETWORK + "200";
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Duration PATIENCE_FOR_IMAGES = Duration.ofMinutes(30);
  private static final Duration SOON = Duration.ofSeconds(60);

  /** Hands the machines to tests that have a parameter for them. */
  static final class Shared implements ParameterResolver {
    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
      return parameter.getParameter().getType() == ClusterMachines.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
      // What comes first is closed last.
      Engine engine = Engine.Shared.of(context);
      return context
          .getRoot()
          .getStore(Namespace.create(ClusterMachines.class))
          .getOrComputeIfAbsent(
              ClusterMachines.class, key -> new ClusterMachines(engine), ClusterMachines.class);
    }
  }

  private final NetworkNamespace lan = NetworkNamespace.networkSwitch();
  private final NetworkNamespace registryHost =
      NetworkNamespace.machine().plugInto(lan, REGISTRY + "/24");
  private final NetworkNamespace user = NetworkNamespace.machine().plugInto(lan, USER + "/24");
  private final List<ClusterMachine> machines;
  private final Path registryFolder;
  private final Path shared;
  private Daemon registry;

  /**
   * @param origin is given the images, if it does not have them, so that others need not load them
   */
  private ClusterMachines(Engine origin) {
    Result images =
        Installed.run(
            Map.of("DOCKER_HOST", origin.host()),
            PATIENCE_FOR_IMAGES,
            Path.of(System.getProperty("berth.root"), "scripts/build-images.sh").toString(),
            "tensorflow",
            "pytorch");
    assertThat(images.exitCode()).as(images.err()).isZero();
    List<Engine> engines = atOnce(Collections.nCopies(COUNT, origin::copy));
    try {
      registryFolder = Files.createDirectory(engines.get(0).folder().resolve("registry"));
      // The users of images write there.
      shared = Files.createDirectory(engines.get(0).folder().resolve("shared"));
      Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxrwxrwx"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    startRegistry();
    machines = new ArrayList<>();
    for (Engine engine : engines) {
      machines.add(machine(engine, machines.size() + 1));
    }
    onAll(ClusterMachine::start);
    awaitServers();
  }

  private ClusterMachine machine(Engine engine, int number) {
    String address = NETWORK + number;
    return new ClusterMachine(
        "gpu0" + number,
        engine,
        NetworkNamespace.of(engine).plugInto(lan, address + "/24"),
        address,
        List.of(
            "--registry",
            REGISTRY,
            "--simulate-gpus",
            Integer.toString(GPUS),
            "--sample-interval",
            "200ms",
            "--allow-mount",
            shared.toString(),
            "--services",
            Installed.home().resolve("etc/services.yaml").toString()));
  }

  /** All of them, in the order of their names. */
  List<ClusterMachine> machines() {
    return machines;
  }

  /**
   * @param number of gpu01 is 1
   */
  ClusterMachine machine(int number) {
    return machines.get(number - 1);
  }

  ClusterMachine named(String name) {
    return machines.stream()
        .filter(machine -> machine.name().equals(name))
        .findFirst()
        .orElseThrow(() -> new AssertionError("no machine is called '" + name + "'"));
  }

  /** A folder that is the same on all servers, as on a file server, and that runs may mount. */
  Path shared() {
    return shared;
  }

  Daemon registry() {
    return registry;
  }

  /** Starts the registry, also after it was killed; the servers come back to it by themselves. */
  void startRegistry() {
    registry =
        Daemon.startIn(
            registryHost,
            registryFolder,
            "berth-registry",
            "--listen",
            REGISTRY + ":18811",
            "--insecure",
            "--lease",
            "5s");
  }

  /** Returns when the registry knows all servers. */
  void awaitServers() {
    await()
        .atMost(PATIENCE)
        .untilAsserted(
            () ->
                assertThat(berth("servers").out().lines().map(line -> line.split(" ")[0]))
                    .containsAll(machines.stream().map(ClusterMachine::name).toList()));
  }

  /** Runs {@code berth} with these arguments, as the user who knows the registry. */
  Result berth(String... args) {
    return berth(PATIENCE, args);
  }

  /** The same with another patience. */
  Result berth(Duration patience, String... args) {
    return Installed.run(
        Map.of("BERTH_REGISTRY", REGISTRY), patience, command(args).toArray(String[]::new));
  }

  /** Starts {@code berth}, as the user who knows the registry. A SIGINT reaches it. */
  Process start(String... args) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(Installed.heedingCtrlC(command(args)));
    builder.environment().put("BERTH_REGISTRY", REGISTRY);
    return builder.start();
  }

  /** The machine of the user, where servers reach what listens at {@link #userHost}. */
  NetworkNamespace user() {
    return user;
  }

  String userHost() {
    return USER;
  }

  private List<String> command(String... args) {
    return user.inside(
        Stream.concat(Stream.of(Installed.command("berth")), Stream.of(args)).toList());
  }

  /**
   * Checks that nothing is left on any machine: no run, no reservation, no container, no process.
   */
  void assertNothingLeft() {
    // The last things go in the moment in which the caller hears of the end.
    assertNothingLeftAfter(SOON);
  }

  /** The same when nobody says when it should be gone, but after this time at the latest. */
  void assertNothingLeftAfter(Duration time) {
    await()
        .atMost(time)
        .untilAsserted(
            () -> {
              assertThat(unfinished()).isEmpty();
              assertThat(held()).isEmpty();
              machines.forEach(ClusterMachine::assertNothingLeft);
            });
  }

  /** The runs that have not ended. */
  List<Run> unfinished() throws InvalidProtocolBufferException {
    List<Run> runs = new ArrayList<>();
    for (String line : fromAll("runs", "--json")) {
      ListRunsResponse.Builder response = ListRunsResponse.newBuilder();
      JsonFormat.parser().merge(line, response);
      runs.addAll(response.getRunsList());
    }
    return runs.stream().filter(run -> run.getState() != RunState.RUN_STATE_ENDED).toList();
  }

  /** The reservations that there are. */
  List<Reservation> held() throws InvalidProtocolBufferException {
    List<Reservation> reservations = new ArrayList<>();
    for (String line : fromAll("reservations", "--json")) {
      ListReservationsResponse.Builder response = ListReservationsResponse.newBuilder();
      JsonFormat.parser().merge(line, response);
      reservations.addAll(response.getReservationsList());
    }
    return reservations;
  }

  /** What a command prints that prints a line for each server. */
  private List<String> fromAll(String... args) {
    Result result = berth(args);
    assertThat(result.out().lines()).as(result.err()).hasSize(COUNT);
    return result.out().lines().toList();
  }

  private void onAll(Consumer<ClusterMachine> action) {
    atOnce(
        machines.stream()
            .<Callable<Void>>map(
                machine ->
                    () -> {
                      action.accept(machine);
                      return null;
                    })
            .toList());
  }

  private static <T> List<T> atOnce(List<Callable<T>> actions) {
    ExecutorService threads = Executors.newFixedThreadPool(COUNT);
    try {
      List<T> results = new ArrayList<>();
      for (Future<T> future : threads.invokeAll(actions)) {
        results.add(future.get());
      }
      return results;
    } catch (InterruptedException | ExecutionException e) {
      throw new AssertionError(e);
    } finally {
      threads.shutdown();
    }
  }

  @Override
  public void close() {
    registry.close();
    onAll(ClusterMachine::close);
    user.close();
    registryHost.close();
    lan.close();
  }
}
