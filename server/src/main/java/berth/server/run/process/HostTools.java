package berth.server.run.process;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Programs of this machine that are started as root: by their path, never by a search. */
final class HostTools {
  /** For what they start in turn. */
  static final String PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

  private HostTools() {}

  static String of(String name) {
    for (String folder : List.of("/usr/bin", "/bin", "/usr/sbin", "/sbin")) {
      Path file = Path.of(folder, name);
      if (Files.isExecutable(file)) {
        return file.toString();
      }
    }
    // Fails with a message that names it.
    return "/usr/bin/" + name;
  }
}
