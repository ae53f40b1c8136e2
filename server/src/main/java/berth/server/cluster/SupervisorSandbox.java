package berth.server.cluster;

import berth.host.lock.KernelFiles;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.UidRange;
import berth.supervision.SupervisionFolder;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * What a supervisor may see and do. It reads what a stranger has sent, and speaks with servers that
 * others have registered; so it runs as a user that nobody else is, without capabilities, in a file
 * system that has its own folder, the programs it consists of, and nothing else of the machine but
 * the network. All of that needs root: a server of another user starts supervisors as that user,
 * who can do no more than the server itself, and only forbids them new privileges.
 */
public final class SupervisorSandbox {
  private static final String PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

  // It hardly needs a heap, and there may be many of them. A JVM that is not told begins with a
  // share of the machine's memory. What is half dead is not started again.
  private static final String JAVA_OPTIONS =
      "-Djava.io.tmpdir="
          + SupervisionFolder.TEMPORARY
          + " -Xms16m -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData -Xmx160m";

  // As its own user in its own folder, below which its temporary files are: there is no /tmp.
  private static final String BEGIN = "cd \"$0\" && exec \"$@\"";

  // Runs as root in a mount namespace of its own, and becomes the supervisor without a fork: the
  // process stays the one that was noted. All that it touches belongs to root; of what the
  // supervisor can change it names only folders that lie in one of root's. The process is left in a
  // chroot rather than a new root, because from there no user namespace can be made.
  private static final String ENTER =
      """
      set -eu
      umask 022
      root=$1 uid=$2 input=$3 state=$4 count=$5
      shift 5
      mount -t tmpfs -o mode=0755,size=1m,nosuid,nodev,noexec berth "$root"
      place() {
        if [ -d "$1" ]; then
          mkdir -p "$root$1"
        elif [ ! -e "$root$1" ]; then
          mkdir -p "$root${1%/*}"
          : >"$root$1"
        fi
        mount --bind "$1" "$root$1"
      }
      show() {
        [ -e "$1" ] || return 0
        place "$1"
        mount -o remount,bind,ro,nosuid,nodev "$root$1"
      }
      for path in /usr /bin /sbin /lib /lib32 /lib64 /etc/ld.so.cache /etc/hosts /etc/host.conf \
        /etc/nsswitch.conf /etc/gai.conf /etc/ssl/certs /etc/java* /run/avahi-daemon \
        /sys/devices/system/cpu /proc/meminfo /proc/stat /proc/sys/net \
        /proc/sys/kernel/cap_last_cap; do
        show "$path"
      done
      # What changes it replaces the file: of a file alone the old one would stay. But not all of
      # /run, where everybody's sockets are.
      names=$(readlink -f /etc/resolv.conf) || names=
      case $names in
        /run/*/*)
          show "${names%/*}"
          ln -s "$names" "$root/etc/resolv.conf"
          ;;
        *) show /etc/resolv.conf ;;
      esac
      for path in /dev/null /dev/zero /dev/random /dev/urandom; do
        place "$path"
      done
      # Of the processes it sees itself.
      place "/proc/$$"
      ln -s "$$" "$root/proc/self"
      ln -s self/net "$root/proc/net"
      while [ "$count" -gt 0 ]; do
        show "$1"
        shift
        count=$((count - 1))
      done
      show "$input"
      place "$state"
      mount -o remount,bind,nosuid,nodev,noexec "$root$state"
      mount -o remount,ro "$root"
      exec chroot "$root" setpriv --reuid "$uid" --regid "$uid" --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
      """;

  private final boolean root;
  private final int firstUid;
  private final int lastUid;
  private final List<Path> programs;

  private SupervisorSandbox(boolean root, int firstUid, int lastUid, List<Path> programs) {
    this.root = root;
    this.firstUid = firstUid;
    this.lastUid = lastUid;
    this.programs = programs.stream().map(Path::toAbsolutePath).toList();
  }

  /**
   * As good a one as the user of this process can make.
   *
   * @param uids the numbers of users that supervisors get; no account may have one of them
   * @param programs folders and files that a supervisor consists of, beyond those of the system
   */
  public static SupervisorSandbox of(UidRange uids, List<Path> programs) {
    return new SupervisorSandbox(KernelFiles.isRoot(), uids.first(), uids.last(), programs);
  }

  /** As a server that is not root starts them. */
  static SupervisorSandbox ofThisUser() {
    return new SupervisorSandbox(false, 0, 0, List.of());
  }

  /** The user of a supervisor to come, whom no other has; empty: that of this process. */
  OptionalInt newUser(Path clusters) throws IOException {
    if (!root) {
      return OptionalInt.empty();
    }
    Set<Integer> taken = new HashSet<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(clusters)) {
      for (Path cluster : all) {
        Path state = new SupervisionFolder(cluster).state();
        if (Files.exists(state, LinkOption.NOFOLLOW_LINKS)) {
          taken.add(owner(state));
        }
      }
    }
    // Not the next one: that of a cluster that was just forgotten should rest.
    int count = lastUid - firstUid + 1;
    int begin = ThreadLocalRandom.current().nextInt(count);
    for (int i = 0; i < count; i++) {
      int uid = firstUid + (begin + i) % count;
      if (!taken.contains(uid)) {
        return OptionalInt.of(uid);
      }
    }
    throw new BerthException(
        Reason.EXHAUSTED,
        "all users from " + firstUid + " to " + lastUid + " have a cluster; see --supervisor-uids");
  }

  static int owner(Path path) throws IOException {
    return (Integer) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  /** The words that run {@code command} in here, without another process. */
  List<String> around(ClusterFolder folder, List<String> command) throws IOException {
    List<String> words = new ArrayList<>();
    if (root) {
      int uid = owner(folder.state());
      if (uid == 0) {
        throw new IOException(
            folder.state() + " belongs to root, and supervisors never run as root");
      }
      words.addAll(
          List.of("unshare", "--mount", "--ipc", "--propagation", "slave", "--", "sh", "-c"));
      words.addAll(List.of(ENTER, "sh", folder.mountPoint().toString(), "" + uid));
      words.add(folder.shared().input().toString());
      words.addAll(List.of(folder.state().toString(), "" + programs.size()));
      programs.forEach(path -> words.add(path.toString()));
    } else {
      words.addAll(List.of("setpriv", "--no-new-privs", "--"));
    }
    words.addAll(List.of("sh", "-c", BEGIN, folder.state().toString()));
    words.addAll(command);
    return words;
  }

  /** All variables that a supervisor gets: those of this process may be secrets. */
  static Map<String, String> environment() {
    return Map.of(
        "PATH",
        PATH,
        "LC_ALL",
        "C.UTF-8",
        "JAVA_HOME",
        System.getProperty("java.home"),
        "BERTH_JAVA_OPTS",
        JAVA_OPTIONS);
  }
}
