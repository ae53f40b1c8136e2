package berth.host.state;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** A file system with little room in place of a folder, until it is closed. Needs root. */
public final class SmallDisk implements AutoCloseable {
  private final Path folder;
  private final Path ballast;

  public SmallDisk(Path folder) {
    this(folder, 1);
  }

  public SmallDisk(Path folder, int mebibytes) {
    this.folder = folder;
    this.ballast = folder.resolve("ballast");
    run("mount", "-t", "tmpfs", "-o", "size=" + mebibytes + "m", "small-disk", folder.toString());
  }

  /** Leaves no room for anybody. */
  public void fill() throws IOException {
    byte[] page = new byte[4096];
    try (OutputStream out = Files.newOutputStream(ballast)) {
      while (true) {
        out.write(page);
      }
    } catch (IOException e) {
      assertThat(e).hasMessage("No space left on device");
    }
  }

  /** How many bytes are free. */
  public long room() {
    return folder.toFile().getUsableSpace();
  }

  /** Makes room again. */
  public void empty() throws IOException {
    Files.delete(ballast);
  }

  @Override
  public void close() {
    run("umount", "-l", folder.toString());
  }

  private static void run(String... command) {
    try {
      assertThat(new ProcessBuilder(command).inheritIO().start().waitFor()).isZero();
    } catch (IOException | InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
