package berth.e2e.runs;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Python;
import com.google.protobuf.Timestamp;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A process that wants a lock as {@code fasteners} takes it, and waits for it in the kernel, which
 * gives it the lock in the very moment in which nobody has it.
 */
final class LockWaiter implements AutoCloseable {
  private static final long PATIENCE_SECONDS = 30;

  private final Process process;
  private final CompletableFuture<Instant> gotIt;

  /** Returns when it waits. Fails if the lock is free. */
  LockWaiter(Path file) throws IOException {
    process =
        new ProcessBuilder(Python.script("wait_for_lock.py", file))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    BufferedReader out = process.inputReader();
    assertThat(out.readLine()).isEqualTo("busy");
    gotIt =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                assertThat(out.readLine()).startsWith("free ");
                return Instant.now();
              } catch (IOException e) {
                throw new AssertionError(e);
              }
            });
  }

  boolean hasTheLock() {
    return gotIt.isDone();
  }

  /** Waits for the lock; returns when it came. */
  Instant gotIt() throws Exception {
    return gotIt.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly();
  }
}
