package berth.e2e;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A file system of its own for a folder, with little room, until it is closed. The folder has again
 * what it had then.
 */
final class TmpfsDisk implements AutoCloseable {
  private static final String SIZE = "16m";

  private final Path folder;
  private final Path ballast;

  TmpfsDisk(Path folder) {
    this.folder = folder;
    this.ballast = folder.resolve("ballast");
    checked("mount", "-t", "tmpfs", "-o", "size=" + SIZE, "small-disk", folder.toString());
  }

  /** Leaves no room for anybody. */
  void fill() throws IOException {
    byte[] page = new byte[4096];
    try (OutputStream out = Files.newOutputStream(ballast)) {
      while (true) {
        out.write(page);
      }
    } catch (IOException e) {
      if (!e.getMessage().equals("No space left on device")) {
        throw e;
      }
    }
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
