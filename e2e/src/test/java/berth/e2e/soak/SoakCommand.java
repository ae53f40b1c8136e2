package berth.e2e.soak;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A command of a user that may take long, or be killed. What it prints goes to files. */
record SoakCommand(List<String> words, Process process, Path outFile, Path errFile) {
  static SoakCommand start(Path folder, Map<String, String> variables, List<String> words) {
    try {
      Path out = Files.createTempFile(folder, "command", ".out");
      Path err = Files.createTempFile(folder, "command", ".err");
      ProcessBuilder builder = new ProcessBuilder(words);
      builder.redirectOutput(out.toFile()).redirectError(err.toFile());
      builder.environment().putAll(variables);
      Process process = builder.start();
      process.getOutputStream().close();
      return new SoakCommand(words, process, out, err);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns whether it has ended by then. */
  boolean await(Duration time) throws InterruptedException {
    return process.waitFor(time.toMillis(), TimeUnit.MILLISECONDS);
  }

  void kill() {
    process.destroyForcibly();
  }

  int exitCode() {
    return process.exitValue();
  }

  String out() {
    return read(outFile);
  }

  String err() {
    return read(errFile).strip();
  }

  /** Deletes what it printed; that of commands with which something was wrong stays. */
  void forget() {
    try {
      Files.delete(outFile);
      Files.delete(errFile);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String read(Path file) {
    try {
      return new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
