package berth.e2e;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Runs the installed commands to their end, as a person would. */
final class Installed {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  // Whoever starts the tests in the background of a script has them ignore SIGINT, and so berth.
  private static final String HEEDING_CTRL_C =
      "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
          + " os.execvp(sys.argv[1], sys.argv[1:])";

  /** How a command ended. */
  record Result(int exitCode, String out, String err) {}

  private Installed() {}

  static String command(String name) {
    return home().resolve("bin").resolve(name).toString();
  }

  static Path home() {
    return Path.of(System.getProperty("berth.home"));
  }

  /** A command that becomes {@code command}, and that a SIGINT reaches. */
  static List<String> heedingCtrlC(List<String> command) {
    List<String> words = new ArrayList<>(List.of("python3", "-c", HEEDING_CTRL_C));
    words.addAll(command);
    return words;
  }

  /** Runs {@code berth} with these arguments. */
  static Result berth(String... args) {
    List<String> words = new ArrayList<>(List.of(command("berth")));
    words.addAll(List.of(args));
    return run(words.toArray(String[]::new));
  }

  static Result run(String... command) {
    return run(Map.of(), PATIENCE, command);
  }

  /** Runs a command with these variables too, and waits so long for its end. */
  static Result run(Map<String, String> variables, Duration patience, String... command) {
    ProcessBuilder builder = new ProcessBuilder(command);
    // Table, bars and degree signs as on most people's machines, whatever this one is set to.
    builder.environment().putAll(Map.of("LC_ALL", "C.UTF-8", "TERM", "xterm"));
    // Nobody may look for registries on the network that a test happens to run in.
    builder.environment().put("BERTH_REGISTRY", "none");
    builder.environment().putAll(variables);
    try {
      Process process = builder.start();
      process.getOutputStream().close();
      CompletableFuture<String> out = text(process.getInputStream());
      CompletableFuture<String> err = text(process.getErrorStream());
      if (!process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS)) {
        process.destroyForcibly();
        throw new AssertionError(List.of(command) + " did not end: " + out.join() + err.join());
      }
      return new Result(process.exitValue(), out.join(), err.join());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static CompletableFuture<String> text(InputStream stream) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }
}
