package berth.e2e;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A Docker engine of these tests alone. The first test that wants one starts it, and it ends with
 * the tests, however they end: who stops it waits for the end of a pipe that only this process has.
 */
final class Engine implements AutoCloseable {
  static final String IMAGE = "berth-test/busybox:1";

  private static final String SCRIPT =
      Path.of(System.getProperty("berth.root"), "scripts/engine.sh").toString();

  /** Hands the engine to tests that have a parameter for it. */
  static final class Shared implements ParameterResolver {
    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
      return parameter.getParameter().getType() == Engine.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
      return of(context);
    }

    static Engine of(ExtensionContext context) {
      return context
          .getRoot()
          .getStore(Namespace.create(Engine.class))
          .getOrComputeIfAbsent(Engine.class, key -> new Engine(Optional.empty()), Engine.class);
    }
  }

  private final Path folder;
  private final Process stopper;
  private final String host;

  private Engine(Optional<Engine> origin) {
    try {
      folder = Files.createTempDirectory("berth-engine").toRealPath();
      stopper =
          new ProcessBuilder(
                  "setsid", "sh", "-c", "cat; exec \"$0\" stop \"$1\"", SCRIPT, folder.toString())
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    origin.ifPresent(engine -> checked(List.of(SCRIPT, "copy", engine.folder + "", folder + "")));
    start();
    host = script("env").replaceFirst("^DOCKER_HOST=", "").strip();
  }

  /** Starts another engine, which has the images that this one has now. */
  Engine copy() {
    return new Engine(Optional.of(this));
  }

  /** Its address, for {@code --docker}. */
  String host() {
    return host;
  }

  /** The folder with everything of it. */
  Path folder() {
    return folder;
  }

  /** Starts it again after {@link #kill}. */
  void start() {
    script("start");
  }

  /** As an update of its package does. */
  void restart() {
    script("restart");
  }

  void kill() {
    script("kill");
  }

  /** A line for each container that the stand-in for NVIDIA's hook was called for. */
  List<String> hookLog() throws IOException {
    return Files.readAllLines(folder.resolve("hook.log"));
  }

  /** Runs {@code docker}, and returns what it prints. */
  String docker(String... words) {
    List<String> command = new ArrayList<>(List.of("docker", "-H", host));
    command.addAll(List.of(words));
    return checked(command);
  }

  /** A property of a container, by a template of Go. */
  String inspect(String container, String template) {
    return docker("inspect", "-f", template, container);
  }

  /** The containers of a server, whatever they do. */
  List<String> containersOf(Path stateFolder) {
    return docker("ps", "-aq", "--no-trunc", "--filter", "label=berth.state=" + stateFolder)
        .lines()
        .toList();
  }

  /** A command that runs in the network of the engine. */
  List<String> inItsNetwork(List<String> command) {
    List<String> words = new ArrayList<>(List.of("nsenter", "--net=" + folder.resolve("netns")));
    words.addAll(command);
    return words;
  }

  @Override
  public void close() {
    try {
      stopper.getOutputStream().close();
      if (stopper.waitFor() != 0 || Files.exists(folder)) {
        throw new AssertionError("the engine in " + folder + " could not be stopped");
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private String script(String verb) {
    return checked(List.of(SCRIPT, verb, folder.toString()));
  }

  private static String checked(List<String> command) {
    Installed.Result result = Installed.run(command.toArray(String[]::new));
    if (result.exitCode() != 0) {
      throw new AssertionError(command + " failed: " + result.out() + result.err());
    }
    return result.out().strip();
  }
}
