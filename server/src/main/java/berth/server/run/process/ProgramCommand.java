package berth.server.run.process;

import berth.host.lock.KernelFiles;
import berth.server.run.GpuVariables;
import berth.server.run.Launch;
import berth.server.run.RequestedRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * How a program is started: by a small shell that belongs to this user, and then as its own. What
 * the caller says (variables, working folder, words) has no effect before the privileges are
 * dropped: the variables travel as values of others, under names that nothing reads.
 */
final class ProgramCommand {
  // Signals are sent to the group of which this shell is the leader. It must survive them, and its
  // child must not: what a shell catches, its children have by default. An advantage that the
  // daemon has when memory is short goes to the shell, but not to the program. Where another user
  // cannot get to the working folder by its path, all that is closed to him is hidden behind an
  // empty folder, in which there is nothing but the working folder. Only the program sees it so.
  private static final String WATCHER =
      """
      trap : HUP INT QUIT USR1 USR2 TERM ALRM
      cd "$1" || exit 1
      (set -C; : >../mark/once) 2>/dev/null || exit 1
      join=$2 hidden=$3 work=$4 boot=$5
      shift 5
      eval "$join" || exit 1
      # When it started, in the kernel's ticks: no later process of the same id has that.
      read -r stat <"/proc/$$/stat" || exit 1
      at20() { shift 19; started=$1; }
      at20 ${stat##*) }
      # Over what is there: a full disk has room for that.
      echo "$$ $started $boot" 1<>pid.new && mv pid.new pid
      (
        { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null
        # A signal that came before this process did not reach it.
        if [ -e end ]; then
          read -r code <end
          exit "$code"
        fi
        if [ -n "$hidden" ]; then
          exec 9<"$work" || exit 1
          mount -t tmpfs -o mode=0755,size=64k berth "$hidden" || exit 1
          (umask 022; mkdir -p "$work") || exit 1
          # By the descriptor: its path leads into the empty folder by now.
          mount --no-canonicalize --bind /proc/self/fd/9 "$work" || exit 1
          exec 9<&-
        fi
        # Not the daemon's, which shuts everybody out.
        umask 022
        exec "$@"
      ) </dev/null >stdout 2>stderr
      echo $? 1<>exit.new
      mv exit.new exit
      """;

  /** At least as long as what the watcher writes into {@code pid.new} and {@code exit.new}. */
  static final String ROOM = "\n".repeat(100);

  /** Variables that shells have their own opinion of. */
  private static final Pattern SHELLS_OWN =
      Pattern.compile(
          "\\w*[^A-Za-z0-9_].*|BASH\\w*|LC_\\w+|LANG|LANGUAGE|E?UID|PPID|SHELLOPTS|POSIXLY_CORRECT"
              + "|HIST\\w*|S?RANDOM|SECONDS|LINENO|EPOCH\\w+|FUNC\\w+|DIRSTACK|GROUPS|PIPESTATUS"
              + "|OPT\\w+|IFS|PS\\d|PWD|OLDPWD|_|ENV|MAIL\\w*|TMOUT|COMP\\w*|GLOBIGNORE|CHILD_MAX"
              + "|READLINE\\w*|REPLY|SHLVL|TIMEFORMAT|TEXTDOMAIN\\w*|EXECIGNORE|FCEDIT|FIGNORE");

  private static final String VALUE = "BERTH_VALUE_";

  private final Launch launch;
  private final Optional<Cgroup> group;

  ProgramCommand(Launch launch, Optional<Cgroup> group) {
    this.launch = launch;
    this.group = group;
  }

  /** The words of the shell that watches the program. */
  List<String> words() throws IOException {
    Optional<Path> hidden = launch.user().isPresent() ? closedAbove(work()) : Optional.empty();
    List<String> words = new ArrayList<>(List.of(HostTools.of("setsid")));
    if (hidden.isPresent()) {
      words.addAll(List.of(HostTools.of("unshare"), "--mount", "--propagation", "slave", "--"));
    }
    words.addAll(List.of(HostTools.of("sh"), "-c", WATCHER, launch.runId()));
    words.add(launch.folder().io().toString());
    words.add(group.map(Cgroup::joinScript).orElse(":"));
    words.add(hidden.map(Path::toString).orElse(""));
    words.add(work().toString());
    words.add(KernelFiles.bootId());
    launch
        .user()
        .ifPresent(
            user ->
                words.addAll(
                    List.of(
                        HostTools.of("setpriv"),
                        "--reuid=" + user.uid(),
                        "--regid=" + user.gid(),
                        "--clear-groups",
                        "--bounding-set=-all",
                        "--inh-caps=-all",
                        "--no-new-privs",
                        "--")));
    words.addAll(List.of(HostTools.of("sh"), "-c", starter(), launch.runId()));
    words.add(onHost(launch.workingDir()));
    launch.entrypoint().ifPresent(words::addAll);
    launch.command().stream().map(this::onHost).forEach(words::add);
    return words;
  }

  /** The variables of that shell. */
  Map<String, String> environment() {
    Map<String, String> environment = new LinkedHashMap<>();
    environment.put("PATH", HostTools.PATH);
    int number = 0;
    for (Map.Entry<String, String> variable : variables().entrySet()) {
      boolean direct = !SHELLS_OWN.matcher(variable.getKey()).matches();
      environment.put(
          VALUE + number++,
          direct ? variable.getValue() : variable.getKey() + "=" + variable.getValue());
    }
    return environment;
  }

  // What becomes the program, when it has no privileges any more. Not by way of the words of
  // env(1), which everybody can read, except for names that a shell would not pass on.
  private String starter() {
    StringBuilder exports = new StringBuilder();
    StringBuilder unset = new StringBuilder();
    StringBuilder assigned = new StringBuilder();
    int number = 0;
    for (String name : variables().keySet()) {
      String value = VALUE + number++;
      if (SHELLS_OWN.matcher(name).matches()) {
        unset.append(" -u ").append(value);
        assigned.append(" \"$").append(value).append('"');
      } else {
        exports.append("export ").append(name).append("=\"$").append(value).append("\"; ");
        exports.append("unset ").append(value).append("; ");
      }
    }
    // The path in which the program is looked for is the caller's; env(1) is found without it.
    return "cd -- \"$1\" || exit 126; shift; "
        + exports
        + "exec "
        + (assigned.isEmpty() ? "" : HostTools.of("env") + unset + assigned + " ")
        + "\"$@\"";
  }

  private Map<String, String> variables() {
    Map<String, String> variables = new LinkedHashMap<>();
    variables.put("PATH", System.getenv().getOrDefault("PATH", HostTools.PATH));
    variables.putAll(launch.env());
    variables.put(RequestedRun.WORK_VARIABLE, work().toString());
    variables.putAll(GpuVariables.onHost(launch.gpus()));
    return variables;
  }

  private Path work() {
    return launch.folder().work();
  }

  // There is no /work but the run's own.
  private String onHost(String path) {
    if (path.equals(RequestedRun.WORK)) {
      return work().toString();
    }
    return path.startsWith(RequestedRun.WORK + "/")
        ? work() + path.substring(RequestedRun.WORK.length())
        : path;
  }

  /** The first folder on the way to {@code folder} that others cannot enter. */
  private static Optional<Path> closedAbove(Path folder) throws IOException {
    Path real = folder.getParent().toRealPath();
    Path reached = real.getRoot();
    for (Path name : real) {
      reached = reached.resolve(name);
      if (((int) Files.getAttribute(reached, "unix:mode") & 1) == 0) {
        return Optional.of(reached);
      }
    }
    return Optional.empty();
  }
}
