package berth.e2e.soak;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.NetworkNamespace;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A daemon on a machine of its own as far as networks are concerned, which can be killed, stopped,
 * started again and cut off. Any thread may call, one at a time.
 */
final class SoakServer implements AutoCloseable {
  private final String name;
  private final String command;
  private final NetworkNamespace host;
  private final Path folder;
  private final List<String> options;
  private final Absences absences = new Absences();
  private Daemon daemon;

  /**
   * It does not run yet.
   *
   * @param command {@code berthd} or {@code berth-registry}
   * @param folder for its locks, state and logs
   */
  SoakServer(
      String name, String command, NetworkNamespace host, Path folder, List<String> options) {
    this.name = name;
    this.command = command;
    this.host = host;
    this.folder = folder;
    this.options = List.copyOf(options);
    try {
      Files.createDirectories(folder);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  String name() {
    return name;
  }

  Path folder() {
    return folder;
  }

  Path locks() {
    return folder.resolve("locks");
  }

  Path runs() {
    return folder.resolve("state/runs");
  }

  /** When nobody could reach it. */
  Absences absences() {
    return absences;
  }

  long pid() {
    return daemon.pid();
  }

  void start() {
    daemon = Daemon.startIn(host, folder, command, options.toArray(String[]::new));
    absences.end(Absences.Kind.DOWN);
  }

  void kill() throws InterruptedException {
    absences.begin(Absences.Kind.DOWN);
    daemon.kill();
  }

  /** Returns the exit code. */
  int stop() throws InterruptedException {
    absences.begin(Absences.Kind.DOWN);
    return daemon.stop();
  }

  void cut() {
    absences.begin(Absences.Kind.CUT);
    host.unplug();
  }

  void heal() {
    host.replug();
    absences.end(Absences.Kind.CUT);
  }

  /** The lines of its logs that tell of something that nobody expected. */
  List<String> complaints() {
    List<String> found = new ArrayList<>();
    try (var logs = Files.newDirectoryStream(folder, "*.log")) {
      for (Path log : logs) {
        Files.readAllLines(log).stream()
            .filter(line -> line.matches("\\S+ ERROR .*|Exception in thread .*"))
            .map(line -> name + ": " + line)
            .forEach(found::add);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found;
  }

  /** Ends all that is on its machine. */
  @Override
  public void close() {
    host.close();
  }
}
