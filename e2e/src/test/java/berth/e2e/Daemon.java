package berth.e2e;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A running daemon of the installation, on a free port of loopback. Closing it kills what is left.
 */
final class Daemon implements AutoCloseable {
  private static final Pattern LISTENS = Pattern.compile("listens on (\\S+)");
  // On a machine that has much else to do.
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private final Process process;
  private final Path log;
  private final String address;

  private Daemon(Process process, Path log) {
    this.process = process;
    this.log = log;
    this.address =
        await()
            .atMost(PATIENCE)
            .until(
                () -> {
                  if (!process.isAlive()) {
                    throw new AssertionError("the daemon ended: " + log());
                  }
                  return listening();
                },
                Optional::isPresent)
            .orElseThrow();
  }

  /**
   * Starts {@code name} with {@code args}; its log, what it leaves behind when it is killed and,
   * unless {@code args} say otherwise, its locks and state are in {@code folder}.
   */
  static Daemon start(Path folder, String name, String... args) {
    return start(folder, Map.of(), name, args);
  }

  /** The same with variables. */
  static Daemon start(Path folder, Map<String, String> variables, String name, String... args) {
    return start(folder, variables, List.of(Installed.command(name)), name, args);
  }

  /** The same with the command in {@code bin}. */
  static Daemon start(
      Path bin, Path folder, Map<String, String> variables, String name, String... args) {
    return start(folder, variables, List.of(bin.resolve(name).toString()), name, args);
  }

  /** The same on another network, where it may look for registries. */
  static Daemon startIn(NetworkNamespace host, Path folder, String name, String... args) {
    List<String> command = host.inside(List.of(Installed.command(name)));
    return start(folder, Map.of("BERTH_REGISTRY", ""), command, name, args);
  }

  private static Daemon start(
      Path folder, Map<String, String> variables, List<String> words, String name, String... args) {
    List<String> command = new ArrayList<>(words);
    boolean looksAround = variables.containsKey("BERTH_REGISTRY");
    command.addAll(List.of(args));
    if (!command.contains("--listen")) {
      command.addAll(List.of("--listen", "127.0.0.1:0"));
    }
    if (name.equals("berth-registry") && !command.contains("--discovery-port") && !looksAround) {
      // Not the machine's own: somebody may look for a real registry there.
      command.addAll(List.of("--discovery-port", "0"));
    }
    try {
      if (name.equals("berthd") && !command.contains("--lock-dir")) {
        // Not the machine's own: a test must not meet the GPUs of others.
        Path locks = Files.createDirectories(folder.resolve("locks"));
        Path state = folder.resolve("state");
        command.addAll(List.of("--lock-dir", locks.toString(), "--state-dir", state.toString()));
      }
      Path log = Files.createTempFile(folder, name, ".log");
      ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
      builder.environment().put("BERTH_JAVA_OPTS", "-Djava.io.tmpdir=" + folder);
      builder.environment().put("BERTH_REGISTRY", "none");
      builder.environment().putAll(variables);
      return new Daemon(builder.redirectOutput(log.toFile()).start(), log);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  String address() {
    return address;
  }

  boolean alive() {
    return process.isAlive();
  }

  long pid() {
    return process.pid();
  }

  String log() {
    try {
      return Files.readString(log);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Sends SIGTERM and returns the exit code. */
  int stop() throws InterruptedException {
    process.destroy();
    if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
      throw new AssertionError("the daemon did not stop: " + log());
    }
    return process.exitValue();
  }

  /** Sends SIGKILL, and returns when it is dead. */
  void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }

  private Optional<String> listening() {
    Matcher matcher = LISTENS.matcher(log());
    return matcher.find() ? Optional.of(matcher.group(1)) : Optional.empty();
  }
}
