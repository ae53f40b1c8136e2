package berth.client.call;

import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The installation of Python packages before a program starts, in the program's own container. */
final class PipInstall {
  // Only a shell is known to be there. The folder of the program comes first in Python's path, so a
  // queue.py in it would be taken by pip too, unless that is told not to (from Python 3.11 on).
  private static final String SCRIPT =
      """
      PYTHONSAFEPATH=1 PIP_ROOT_USER_ACTION="${PIP_ROOT_USER_ACTION-ignore}" python3 -m pip install \
      --quiet --no-input --disable-pip-version-check --target .berth-packages @PACKAGES@ >&2 || {
        if python3 -m pip --version >/dev/null 2>&1; then
          echo "berth: pip could not install" @PACKAGES@ >&2
        else
          echo "berth: there is no pip for python3 here, to install" @PACKAGES@ >&2
        fi
        exit 125
      }
      PYTHONPATH=$PWD/.berth-packages${PYTHONPATH:+:$PYTHONPATH}
      PATH=$PWD/.berth-packages/bin:$PATH
      export PYTHONPATH PATH
      exec "$@"
      """;

  private PipInstall() {}

  /**
   * The words that install packages, into the working folder, and then become the command that
   * follows them. If that fails they say so on standard error and end with 125.
   *
   * @param requirements a file beside the code that lists more of them, by its path there
   */
  static List<String> before(List<String> packages, Optional<String> requirements) {
    String quoted =
        Stream.concat(
                packages.stream().map(PipInstall::quoted),
                requirements.stream().map(file -> "-r \"$BERTH_WORK\"/" + quoted(file)))
            .collect(Collectors.joining(" "));
    return List.of("sh", "-c", SCRIPT.replace("@PACKAGES@", quoted), "berth-pip");
  }

  private static String quoted(String word) {
    return "'" + word.replace("'", "'\\''") + "'";
  }
}
