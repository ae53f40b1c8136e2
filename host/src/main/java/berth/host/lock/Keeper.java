package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.IntByReference;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A tiny process that inherits the descriptors of locks and lives exactly as long as they should be
 * held, whatever happens to this process: the locks are the kernel's, and go when the last who has
 * the descriptor goes.
 *
 * @param started its start in the kernel's ticks since the boot, which tells it from a later
 *     process of the same id
 */
public record Keeper(int pid, long started) {
  private static final Logger log = LoggerFactory.getLogger(Keeper.class);

  private static final int OPENED_MEANWHILE = 64;
  private static final Duration KILL_PATIENCE = Duration.ofSeconds(1);

  // How late the end of a process is noticed, in seconds.
  private static final String LOOK_EVERY = "0.02";

  // The end of its input, which is that of this process too, ends it.
  private static final String GATE = "read -r go && exec \"$@\" </dev/null";

  // A run's keeper is told more than that it should go on: a word by which the run can be found in
  // the commands of running processes, and then its process. If this process is killed in between,
  // the keeper itself looks for the word until nobody has it any more. Not in its own arguments,
  // which are a command too.
  private static final String RUN_GATE =
      """
      while read -r word value; do
        case $word in
          keep) kept=1 ;;
          mark) mark=$value ;;
          pid) exec "$1" -s "$2" --pid="$value" -f /dev/null </dev/null ;;
        esac
      done
      [ -n "$kept" ] || exit
      left=$3
      while [ "$left" -gt 0 ]; do
        left=$((left - 1))
        if [ -n "$mark" ] && printf %s "$mark" | grep -qsF -f - /proc/[0-9]*/cmdline; then
          left=$3
        fi
        sleep 1
      done
      """;

  // How long after the last sight of a run its GPUs are kept, if nobody came back to look after it.
  private static final String RUN_PATIENCE_SECONDS = "60";

  /**
   * A keeper that ends with this process until it is told to go on without it. So there is none
   * that nobody has a record of, whenever this process is killed.
   */
  public record Gated(Keeper keeper, int gate) {
    /** To be called once, when there is a record of it. */
    public void goOn() {
      say("go");
      LibC.INSTANCE.close(gate);
    }

    /** In place of {@link #goOn}, for a run's keeper: it can be told more. */
    public void keep() {
      say("keep");
    }

    /** Only after {@link #keep}: what the commands of the run's processes will contain. */
    public void mark(String word) {
      say("mark " + word);
    }

    /** Only after {@link #keep}: the process to live by. The last thing to say. */
    public void livesBy(int pid) {
      say("pid " + pid);
      LibC.INSTANCE.close(gate);
    }

    private void say(String line) {
      byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
      try {
        LibC.INSTANCE.write(gate, bytes, new NativeLong(bytes.length));
      } catch (LastErrorException e) {
        // Somebody has killed it, which is found out in the usual way.
      }
    }

    /** To be called while the gate is open. */
    public void kill() {
      LibC.INSTANCE.close(gate);
      keeper.kill();
    }
  }

  /** Keeps the locks until process {@code pid} has ended. */
  public static Gated untilEndOf(int pid, List<Integer> descriptors) {
    return gated(
        GATE, descriptors, program("tail"), "-s", LOOK_EVERY, "--pid=" + pid, "-f", "/dev/null");
  }

  /** Keeps the locks for a run that is about to start; it is told more through its gate. */
  public static Gated ofRun(List<Integer> descriptors) {
    return gated(RUN_GATE, descriptors, program("tail"), LOOK_EVERY, RUN_PATIENCE_SECONDS);
  }

  /** Keeps the locks for {@code duration}. */
  public static Gated lasting(Duration duration, List<Integer> descriptors) {
    double seconds = duration.toNanos() / 1e9;
    return gated(GATE, descriptors, program("sleep"), String.format(Locale.ROOT, "%.3f", seconds));
  }

  /** Whether this very process still runs. */
  public boolean alive() {
    return process().alive();
  }

  /** Completes when the process has ended. */
  public CompletableFuture<Void> ended() {
    return process().ended(() -> reap(0));
  }

  private KnownProcess process() {
    return new KnownProcess(pid, started);
  }

  /**
   * Descriptors of ours for the same open files, and so for the same locks. Empty if the kernel
   * does not allow that to this user, or the keeper has ended.
   */
  public Optional<List<Integer>> share(List<Integer> descriptors) {
    OptionalInt process = process().open();
    if (process.isEmpty()) {
      return Optional.empty();
    }
    List<Integer> shared = new ArrayList<>();
    try {
      for (int descriptor : descriptors) {
        shared.add(KnownProcess.syscall(LibC.SYS_pidfd_getfd, process.getAsInt(), descriptor));
      }
      return Optional.of(shared);
    } catch (LastErrorException e) {
      shared.forEach(LibC.INSTANCE::close);
      return Optional.empty();
    } finally {
      LibC.INSTANCE.close(process.getAsInt());
    }
  }

  /** Ends the process, and so its part in the locks. */
  public void kill() {
    if (!alive()) {
      // One that ended with its run would stay as a zombie of ours.
      reap(LibC.WNOHANG);
      return;
    }
    try {
      // With all of its group, whose leader it is: what it waits with has inherited the locks too.
      LibC.INSTANCE.kill(-pid, LibC.SIGKILL);
    } catch (LastErrorException e) {
      // It was faster.
    }
    if (process().awaitEnd(KILL_PATIENCE)) {
      reap(0);
    } else {
      log.warn("keeper {} does not exit", pid);
    }
  }

  private void reap(int options) {
    try {
      LibC.INSTANCE.waitpid(pid, null, options);
    } catch (LastErrorException e) {
      // It is not our child: reaped already, or of an earlier berthd.
    }
  }

  private static Gated gated(String script, List<Integer> descriptors, String... arguments) {
    int[] pipe = new int[2];
    try {
      LibC.INSTANCE.pipe2(pipe, LibC.O_CLOEXEC);
    } catch (LastErrorException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot start a process to keep locks: " + e.getMessage(), e);
    }
    try {
      List<String> words = new ArrayList<>(List.of("/bin/sh", "-c", script, "sh"));
      words.addAll(List.of(arguments));
      return new Gated(spawn(pipe[0], descriptors, words.toArray(String[]::new)), pipe[1]);
    } catch (BerthException e) {
      LibC.INSTANCE.close(pipe[1]);
      throw e;
    } finally {
      LibC.INSTANCE.close(pipe[0]);
    }
  }

  private static Keeper spawn(int input, List<Integer> descriptors, String... command) {
    // Larger than the structures of any libc.
    Memory actions = new Memory(512);
    Memory attributes = new Memory(1024);
    Memory signals = new Memory(128);
    IntByReference pid = new IntByReference();
    LibC c = LibC.INSTANCE;
    c.posix_spawn_file_actions_init(actions);
    c.posix_spawnattr_init(attributes);
    try {
      c.posix_spawn_file_actions_adddup2(actions, input, 0);
      for (int fd = 1; fd <= 2; fd++) {
        c.posix_spawn_file_actions_addopen(actions, fd, "/dev/null", LibC.O_RDWR, 0);
      }
      // The JVM does not mark its sockets to be closed. A keeper that had them would keep the
      // daemon's port and connections too.
      int last = highestDescriptor() + OPENED_MEANWHILE;
      for (int fd = 3; fd <= last; fd++) {
        if (!descriptors.contains(fd)) {
          c.posix_spawn_file_actions_addclose(actions, fd);
        }
      }
      for (int descriptor : descriptors) {
        // Onto itself: that clears the mark which closes all others.
        c.posix_spawn_file_actions_adddup2(actions, descriptor, descriptor);
      }
      // A session of its own, so that no terminal's Ctrl-C reaches it.
      c.posix_spawnattr_setflags(
          attributes,
          (short)
              (LibC.POSIX_SPAWN_SETSID | LibC.POSIX_SPAWN_SETSIGMASK | LibC.POSIX_SPAWN_SETSIGDEF));
      signals.clear();
      c.posix_spawnattr_setsigmask(attributes, signals);
      signals.setMemory(0, signals.size(), (byte) 0xff);
      c.posix_spawnattr_setsigdefault(attributes, signals);
      int error =
          c.posix_spawn(
              pid,
              command[0],
              actions,
              attributes,
              new StringArray(command),
              new StringArray(new String[0]));
      if (error != 0) {
        throw new BerthException(
            Reason.UNAVAILABLE, "cannot start " + command[0] + " to keep locks: error " + error);
      }
    } finally {
      c.posix_spawn_file_actions_destroy(actions);
      c.posix_spawnattr_destroy(attributes);
    }
    return new Keeper(pid.getValue(), KernelFiles.startOf(pid.getValue()).orElse(0));
  }

  private static int highestDescriptor() {
    String[] open = new File("/proc/self/fd").list();
    return Stream.of(open == null ? new String[0] : open)
        .mapToInt(Integer::parseInt)
        .max()
        .orElse(2);
  }

  private static String program(String name) {
    for (String folder : List.of("/usr/bin/", "/bin/")) {
      if (Files.isExecutable(Path.of(folder + name))) {
        return folder + name;
      }
    }
    throw new BerthException(
        Reason.UNAVAILABLE, "this machine has no " + name + " to keep locks (package coreutils)");
  }
}
