package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.NetworkNamespace;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/**
 * A GPU server on a network of tests: an engine and a {@code berthd}, which can be killed and
 * started again. Containers on the network of the host see that of this machine. All files are in
 * the folder of the engine, so they are gone with it.
 */
final class ClusterMachine implements AutoCloseable {
  private static final int PORT = 18812;

  private final String name;
  private final String address;
  private final Engine engine;
  private final NetworkNamespace network;
  private final Path folder;
  private final List<String> options;
  private Daemon daemon;

  /**
   * It has no {@code berthd} yet.
   *
   * @param network of the engine, with {@code address}
   * @param options for berthd, besides those that say who it is and where
   */
  ClusterMachine(
      String name, Engine engine, NetworkNamespace network, String address, List<String> options) {
    this.name = name;
    this.address = address;
    this.engine = engine;
    this.network = network;
    this.options = options;
    try {
      folder = Files.createDirectory(engine.folder().resolve("berthd"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Starts {@code berthd}, also after {@link #kill}. */
  void start() {
    List<String> own =
        List.of("--name", name, "--listen", address(), "--insecure", "--docker", engine.host());
    daemon =
        Daemon.startIn(
            network,
            folder,
            "berthd",
            Stream.concat(own.stream(), options.stream()).toArray(String[]::new));
  }

  /** Kills {@code berthd}, and nothing else. */
  void kill() throws InterruptedException {
    daemon.kill();
  }

  String name() {
    return name;
  }

  /** Where {@code berthd} listens. */
  String address() {
    return address + ":" + PORT;
  }

  /** Its address on the network, without a port. */
  String host() {
    return address;
  }

  Engine engine() {
    return engine;
  }

  /** Its network, for example to cut it off. */
  NetworkNamespace network() {
    return network;
  }

  Daemon daemon() {
    return daemon;
  }

  Path state() {
    return folder.resolve("state");
  }

  /** Checks that runs have left no container, no process and no pipe. */
  void assertNothingLeft() {
    assertThat(engine.docker("ps", "-aq")).as("containers on " + name).isEmpty();
    assertThat(Leftovers.processesIn(folder))
        .as("processes on " + name)
        .allMatch(process -> process.startsWith(daemon.pid() + " "));
    try (Stream<Path> runs = Files.list(Files.createDirectories(state().resolve("runs")))) {
      assertThat(runs.map(run -> run.resolve("io")))
          .as("pipes on " + name)
          .noneMatch(Files::exists);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Stops all that is on it, and checks that {@code berthd} leaves no process. */
  @Override
  public void close() {
    try (engine) {
      daemon.stop();
      assertThat(Leftovers.processesIn(folder)).isEmpty();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
