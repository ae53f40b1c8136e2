package berth.e2e;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The scripts beside these tests, for the system's own Python, which has the system's packages. */
final class Python {
  private static final Path SCRIPTS =
      Path.of(System.getProperty("berth.root"), "e2e/src/test/python");

  private Python() {}

  /** The command that runs a script. */
  static List<String> script(String name, Object... args) {
    // -B: no compiled copies in the source tree.
    List<String> command =
        new ArrayList<>(List.of("/usr/bin/python3", "-B", SCRIPTS.resolve(name).toString()));
    for (Object arg : args) {
      command.add(arg.toString());
    }
    return command;
  }
}
