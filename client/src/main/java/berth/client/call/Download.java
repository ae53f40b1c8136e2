package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.DownloadFilesRequest;
import java.io.IOException;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** Fetches files of a run and unpacks them while they come, so that no disk holds them twice. */
public final class Download implements Runnable {
  private static final int PIPE_BYTES = 1 << 20;
  private static final long END_MILLIS = 5000;

  private final RunClient client;
  private final DownloadFilesRequest request;
  private final PipedOutputStream out;
  private volatile BerthException failure;

  private Download(RunClient client, DownloadFilesRequest request, PipedOutputStream out) {
    this.client = client;
    this.request = request;
    this.out = out;
  }

  /**
   * Unpacks the files of {@code request} into {@code folder}, and returns how many there were.
   *
   * @param rename as {@link TarUnpacker#unpack} takes it
   * @param limits what the server may make of this disk
   * @param existing what becomes of files that are here
   * @param notes told of what was left out
   * @throws BerthException if they cannot be had, or cannot be unpacked safely
   * @throws IOException if the folder cannot be written; {@link java.io.InterruptedIOException} if
   *     this thread is interrupted
   */
  public static int into(
      Path folder,
      RunClient client,
      DownloadFilesRequest request,
      UnaryOperator<String> rename,
      TarUnpacker.Limits limits,
      TarUnpacker.Existing existing,
      Consumer<String> notes)
      throws IOException {
    PipedInputStream tar = new PipedInputStream(PIPE_BYTES);
    Download download = new Download(client, request, new PipedOutputStream(tar));
    Thread thread = new Thread(download, "download");
    thread.setDaemon(true);
    thread.start();
    try (tar) {
      TarUnpacker.Unpacked unpacked = TarUnpacker.unpack(tar, folder, rename, limits, existing);
      download.check();
      unpacked.leftOut().forEach(what -> notes.accept("left out " + what));
      return unpacked.files();
    } catch (IOException e) {
      download.check();
      throw e;
    } finally {
      end(thread);
    }
  }

  // The caller closes the connection next, which the thread must not use any more.
  private static void end(Thread thread) {
    thread.interrupt();
    try {
      thread.join(END_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Looks whether files can be written to a folder that is there or will be made, before anything
   * is done for them.
   *
   * @param otherwise what to do if not
   * @throws BerthException if they cannot
   */
  public static void checkWritable(Path folder, String otherwise) {
    Path there = folder.toAbsolutePath().normalize();
    while (!Files.exists(there)) {
      there = there.getParent();
    }
    boolean isFolder = Files.isDirectory(there);
    if (!isFolder || !Files.isWritable(there)) {
      throw new BerthException(
          Reason.INVALID,
          "cannot write to "
              + there
              + ": "
              + (isFolder ? "Permission denied" : "Not a directory")
              + "; "
              + otherwise);
    }
  }

  @Override
  public void run() {
    // The failure is there before the reader sees the end of the pipe.
    try (out) {
      try {
        client.downloadFiles(request, out);
      } catch (BerthException e) {
        failure = e;
      }
    } catch (IOException e) {
      // The reader has gone.
    }
  }

  private void check() {
    if (failure != null) {
      throw failure;
    }
  }
}
