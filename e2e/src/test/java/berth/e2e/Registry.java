package berth.e2e;

import static org.awaitility.Awaitility.await;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A registry of images that an {@link Engine} reaches; see {@code registry.py}. */
final class Registry implements AutoCloseable {
  private static final int PORT = 5000;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Path gate;
  private final Process process;
  private final List<String> said = new CopyOnWriteArrayList<>();

  /**
   * @param folder for a file of its own
   */
  Registry(Engine engine, Path folder) throws IOException {
    gate = folder.resolve("gate");
    process =
        new ProcessBuilder(engine.inItsNetwork(Python.script("registry.py", PORT, gate)))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    Thread reader = new Thread(this::read, "registry");
    reader.setDaemon(true);
    reader.start();
    awaitSaid("ready");
  }

  private void read() {
    try (BufferedReader out = process.inputReader()) {
      for (String line; (line = out.readLine()) != null; ) {
        said.add(line);
      }
    } catch (IOException e) {
      // It has been killed.
    }
  }

  static String image(String name) {
    return "127.0.0.1:" + PORT + "/" + name + ":1";
  }

  /** Lets it send images to their ends. */
  void open() throws IOException {
    Files.createFile(gate);
  }

  /** Lets it stop in the middle of each image. */
  void shut() throws IOException {
    Files.deleteIfExists(gate);
  }

  long timesSaid(String line) {
    return said.stream().filter(line::equals).count();
  }

  void awaitSaid(String line) {
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              if (!process.isAlive()) {
                throw new AssertionError("the registry ended");
              }
              return said.contains(line);
            });
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
