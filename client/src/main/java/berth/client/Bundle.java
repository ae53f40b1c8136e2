package berth.client;

import berth.rpc.BerthException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/**
 * A folder that is sent along with runs, all but {@code .git}, packed once for all servers that may
 * get it. For one thread.
 */
public final class Bundle implements AutoCloseable {
  private final Path folder;
  private Path tar;
  private String digest;

  public Bundle(Path folder) {
    this.folder = folder;
  }

  /**
   * Sends it, unless the server has it, and returns its digest, which {@code RunCodeRequest} wants.
   *
   * @param timeout how long the server may take nothing, or leave the answer open
   * @throws IOException if something in the folder cannot be read
   * @throws BerthException as {@link RunClient#uploadBundle}, and if there is no such folder
   */
  public String upload(RunClient client, Duration timeout) throws IOException {
    if (digest == null) {
      tar = Files.createTempFile("berth-bundle", ".tar");
      // Also if a signal ends this process meanwhile.
      tar.toFile().deleteOnExit();
      digest = TarPacker.pack(folder, tar);
    }
    try (InputStream content = Files.newInputStream(tar)) {
      return client.uploadBundle(digest, content, timeout).getDigest();
    }
  }

  @Override
  public void close() throws IOException {
    if (tar != null) {
      Files.deleteIfExists(tar);
    }
  }
}
