package berth.cli;

import berth.client.RunClient;
import berth.client.TarPacker;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** A folder that is sent along with a run, packed once for all servers that may get it. */
final class Bundle implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Path folder;
  private Path tar;
  private String digest;

  Bundle(Path folder) {
    this.folder = folder;
  }

  /** Sends it, unless the server has it, and returns its name there. */
  String upload(RunClient client) throws IOException {
    if (digest == null) {
      tar = Files.createTempFile("berth-bundle", ".tar");
      // Also if a signal ends this command meanwhile.
      tar.toFile().deleteOnExit();
      digest = TarPacker.pack(folder, tar);
    }
    try (InputStream content = Files.newInputStream(tar)) {
      return client.uploadBundle(digest, content, PATIENCE).getDigest();
    }
  }

  @Override
  public void close() throws IOException {
    if (tar != null) {
      Files.deleteIfExists(tar);
    }
  }
}
