package berth.server.run;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/** How much of a disk a folder takes. */
final class DiskUse {
  private static final long BLOCK = 1024;
  private static final Duration MOST = Duration.ofMinutes(10);

  private DiskUse() {}

  /**
   * The bytes that a folder takes on its disk with all that is in it; empty if that cannot be told.
   * By {@code du}, which knows of holes and hard links, and follows no link while a program works
   * in the folder. May take long.
   */
  static OptionalLong below(Path folder) {
    return below(List.of("du", "-skx", "--", folder.toString()), MOST);
  }

  /** As a command says it that prints no more than a line. */
  static OptionalLong below(List<String> command, Duration most) {
    try {
      Process process =
          new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      try {
        process.getOutputStream().close();
        // Read only when it has ended: on a disk that hangs, it would never.
        if (!process.waitFor(most.toNanos(), TimeUnit.NANOSECONDS)) {
          return OptionalLong.empty();
        }
        String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        // What it cannot enter it leaves out, and says so by its exit code.
        String number = out.replaceFirst("(?s)\\s.*", "");
        return number.isEmpty()
            ? OptionalLong.empty()
            : OptionalLong.of(Long.parseLong(number) * BLOCK);
      } finally {
        process.destroyForcibly();
      }
    } catch (IOException | NumberFormatException e) {
      return OptionalLong.empty();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return OptionalLong.empty();
    }
  }
}
