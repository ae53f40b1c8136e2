package berth.server.run;

import java.io.IOException;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/** How much of a disk a folder takes. */
final class DiskUse {
  private static final long BLOCK = 1024;
  private static final int MOST_MINUTES = 10;

  private DiskUse() {}

  /**
   * The bytes that a folder takes on its disk with all that is in it; empty if that cannot be told.
   * By {@code du}, which knows of holes and hard links, and follows no link while a program works
   * in the folder. May take long.
   */
  static OptionalLong below(Path folder) {
    try {
      Process process =
          new ProcessBuilder("du", "-skx", "--", folder.toString())
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      process.getOutputStream().close();
      String out = new String(process.getInputStream().readAllBytes());
      if (!process.waitFor(MOST_MINUTES, TimeUnit.MINUTES)) {
        process.destroyForcibly();
      }
      // What it cannot enter it leaves out, and says so by its exit code.
      String number = out.replaceFirst("(?s)\\s.*", "");
      return number.isEmpty()
          ? OptionalLong.empty()
          : OptionalLong.of(Long.parseLong(number) * BLOCK);
    } catch (IOException | NumberFormatException e) {
      return OptionalLong.empty();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return OptionalLong.empty();
    }
  }
}
