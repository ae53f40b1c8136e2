package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;

/**
 * A folder that is sent along with runs, see {@link TarPacker}, packed once for all servers that
 * may get it. Any thread may call.
 */
public final class Bundle implements AutoCloseable {
  private final Path folder;
  private final Map<String, CompletableFuture<Void>> uploads = new ConcurrentHashMap<>();
  private Path tar;
  private String digest;

  public Bundle(Path folder) {
    this.folder = folder;
  }

  /**
   * Sends it, unless the server has it, and returns its digest, which {@code RunCodeRequest} wants.
   * Those who send it to the same server at the same time share one upload.
   *
   * @param timeout how long the server may take nothing, or leave the answer open
   * @throws IOException if something in the folder cannot be read
   * @throws BerthException as {@link RunClient#uploadBundle}, and if there is no such folder
   */
  public String upload(RunClient client, Duration timeout) throws IOException {
    String packed = pack();
    while (true) {
      CompletableFuture<Void> own = new CompletableFuture<>();
      CompletableFuture<Void> others = uploads.putIfAbsent(client.peer(), own);
      if (others == null) {
        send(client, packed, timeout, own);
        return packed;
      }
      if (await(others)) {
        return packed;
      }
    }
  }

  private synchronized String pack() throws IOException {
    if (digest == null) {
      Path file = Files.createTempFile("berth-bundle", ".tar");
      // Also if a signal ends this process meanwhile.
      file.toFile().deleteOnExit();
      try {
        digest = TarPacker.pack(folder, file);
        tar = file;
      } finally {
        if (tar == null) {
          Files.delete(file);
        }
      }
    }
    return digest;
  }

  private void send(
      RunClient client, String packed, Duration timeout, CompletableFuture<Void> upload)
      throws IOException {
    try (InputStream content = Files.newInputStream(tar)) {
      client.uploadBundle(packed, content, timeout);
      uploads.remove(client.peer());
      upload.complete(null);
    } catch (IOException | RuntimeException | Error e) {
      uploads.remove(client.peer());
      upload.completeExceptionally(e);
      throw e;
    }
  }

  /** Whether the upload of another thread brought it; false if that thread gave up. */
  private static boolean await(CompletableFuture<Void> upload) throws IOException {
    try {
      upload.get();
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "the upload was interrupted", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BerthException failure) {
        if (failure.reason() == Reason.CANCELLED) {
          return false;
        }
        throw new BerthException(failure.reason(), failure.getMessage(), failure);
      }
      throw new IOException(e.getCause().getMessage(), e.getCause());
    }
  }

  /** Forgets the packed folder. Nobody may be sending it. */
  @Override
  public synchronized void close() {
    if (tar != null) {
      try {
        Files.deleteIfExists(tar);
      } catch (IOException e) {
        // It is tried again when this process ends.
      }
    }
  }
}
