package berth.server.run.docker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where the kernel writes what a container changes of its image. */
final class ContainerLayer {
  private static final Pattern ROOT =
      Pattern.compile("^overlay / overlay (?:[^ ]*,)?upperdir=([^, ]+)", Pattern.MULTILINE);

  private ContainerLayer() {}

  /** The folder, for the container of a process; empty for file systems other than overlays. */
  static Optional<Path> of(int pid) {
    try {
      return in(Files.readString(Path.of("/proc/" + pid + "/mounts"), StandardCharsets.ISO_8859_1));
    } catch (IOException e) {
      // It has ended.
      return Optional.empty();
    }
  }

  /** The same, of what {@code /proc/PID/mounts} says. */
  static Optional<Path> in(String mounts) {
    Matcher root = ROOT.matcher(mounts);
    return root.find() && root.group(1).startsWith("/")
        ? Optional.of(Path.of(root.group(1)))
        : Optional.empty();
  }
}
