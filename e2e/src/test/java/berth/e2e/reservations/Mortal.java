package berth.e2e.reservations;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A process that uses GPUs when it gets them, and may be killed at any moment. */
final class Mortal {
  private static final int SIGKILLED = 128 + 9;

  private final Process process;
  private final BufferedReader out;
  private final StringBuilder said = new StringBuilder();

  private Mortal(Process process) {
    this.process = process;
    this.out = process.inputReader();
  }

  /** Starts a command; what it leaves behind when it is killed goes to {@code folder}. */
  static Mortal start(Path folder, List<String> command) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("BERTH_JAVA_OPTS", "-Djava.io.tmpdir=" + folder);
    return new Mortal(builder.start());
  }

  long pid() {
    return process.pid();
  }

  boolean alive() {
    return process.isAlive();
  }

  /** Sends SIGKILL after a time, unless it has ended by then. What it said can still be read. */
  void killAfter(long millis) {
    CompletableFuture.delayedExecutor(millis, TimeUnit.MILLISECONDS)
        .execute(process.toHandle()::destroyForcibly);
  }

  /** Tells it its GPUs; none end it. */
  void tell(String line) {
    try {
      process.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
      process.getOutputStream().flush();
    } catch (IOException e) {
      // It has been killed.
    }
  }

  /** Waits until it uses its GPUs, and returns what the referee told it; empty if it has ended. */
  Optional<String> awaitUse() throws IOException {
    for (String line; (line = out.readLine()) != null; said.append(line).append('\n')) {
      if (line.equals(Referee.ALONE) || line.equals(Referee.OVERLAP)) {
        return Optional.of(line);
      }
    }
    return Optional.empty();
  }

  /** Waits for its end, and returns whether it was killed. */
  boolean join() throws IOException, InterruptedException {
    awaitUse();
    int code = process.waitFor();
    if (code != 0 && code != SIGKILLED) {
      throw new AssertionError("it ended with " + code + ": " + said);
    }
    return code != 0;
  }
}
