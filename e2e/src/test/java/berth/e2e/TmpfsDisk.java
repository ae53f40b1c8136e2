package berth.e2e;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/**
 * A file system of its own for a folder, with little room, until it is closed. The folder has again
 * what it had then.
 */
final class TmpfsDisk implements AutoCloseable {
  private static final String SIZE = "16m";
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Duration QUIET = Duration.ofMillis(500);

  private final Path folder;
  private final Path ballast;

  TmpfsDisk(Path folder) {
    this.folder = folder;
    this.ballast = folder.resolve("ballast");
    checked("mount", "-t", "tmpfs", "-o", "size=" + SIZE, "small-disk", folder.toString());
  }

  /**
   * Leaves no room for anybody: what others make free meanwhile, as by replacing a file that they
   * had written before, is taken too. A page of it would do for a small file to be replaced again
   * and again.
   */
  void fill() {
    await().atMost(PATIENCE).during(QUIET).until(() -> take() == 0);
  }

  /** Takes what is free, and returns how many bytes that were. */
  private long take() throws IOException {
    long before = Files.exists(ballast) ? Files.size(ballast) : 0;
    byte[] page = new byte[4096];
    try (OutputStream out =
        Files.newOutputStream(ballast, StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
      while (true) {
        out.write(page);
      }
    } catch (IOException e) {
      if (!e.getMessage().equals("No space left on device")) {
        throw e;
      }
    }
    return Files.size(ballast) - before;
  }

  /** Makes room again. */
  void empty() throws IOException {
    Files.delete(ballast);
  }

  @Override
  public void close() {
    checked("umount", folder.toString());
  }

  private static void checked(String... command) {
    Installed.Result result = Installed.run(command);
    if (result.exitCode() != 0) {
      throw new AssertionError(String.join(" ", command) + " failed: " + result.err());
    }
  }
}
