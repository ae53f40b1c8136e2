package berth.server.run.process;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A control group of the kernel with all processes of one run, however they were started. It limits
 * them together, and none of them escapes {@link #kill}.
 *
 * <p>Version 1 of control groups has a hierarchy for each controller, and the group is a folder in
 * every one of them; version 2 has a single hierarchy. The folders are named {@code berth/NAME}.
 * {@code berth} itself stays when a group is removed.
 *
 * <p>Holds no state but the paths, so all threads may call everything.
 */
final class Cgroup {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");
  private static final String PARENT = "berth";
  private static final String PROCESSES = "cgroup.procs";
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]*");
  private static final long CPU_PERIOD_MICROS = 100_000;
  // The kernel refuses less.
  private static final long MIN_CPU_QUOTA_MICROS = 1_000;
  private static final Duration KILL_TIMEOUT = Duration.ofSeconds(10);
  private static final Duration REMOVE_TIMEOUT = Duration.ofSeconds(1);

  private enum Controller {
    MEMORY,
    CPU,
    PIDS;

    /** The kernel's name of it. */
    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private final boolean unified;
  // In version 2 the folder is the same for all.
  private final Map<Controller, Path> folders;

  private Cgroup(boolean unified, Map<Controller, Path> folders) {
    this.unified = unified;
    this.folders = folders;
  }

  /**
   * Makes a group. Empty if this machine has no control groups, or we may not make any.
   *
   * @throws IllegalStateException if a group of that name has processes or groups of its own
   */
  static Optional<Cgroup> create(String name) {
    return create(name, ROOT);
  }

  static Optional<Cgroup> create(String name, Path root) {
    Map<Controller, Path> folders = new EnumMap<>(Controller.class);
    possibleFolders(name, root)
        .forEach(
            (controller, folder) -> {
              if (folders.containsValue(folder) || make(folder)) {
                folders.put(controller, folder);
              }
            });
    return folders.isEmpty() ? Optional.empty() : Optional.of(new Cgroup(isUnified(root), folders));
  }

  /**
   * The group that an earlier process made. If there is none, it has no {@link #procsFiles} and no
   * processes, and nothing can be limited.
   */
  static Cgroup open(String name) {
    return open(name, ROOT);
  }

  static Cgroup open(String name, Path root) {
    Map<Controller, Path> folders = possibleFolders(name, root);
    folders.values().removeIf(folder -> !Files.isDirectory(folder));
    return new Cgroup(isUnified(root), folders);
  }

  private static boolean isUnified(Path root) {
    return Files.exists(root.resolve("cgroup.controllers"));
  }

  private static Map<Controller, Path> possibleFolders(String name, Path root) {
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException("'" + name + "' cannot be the name of a control group");
    }
    boolean unified = isUnified(root);
    Map<Controller, Path> folders = new EnumMap<>(Controller.class);
    for (Controller controller : Controller.values()) {
      Path hierarchy = unified ? root : root.resolve(controller.toString());
      if (Files.exists(hierarchy.resolve(PROCESSES))) {
        folders.put(controller, hierarchy.resolve(PARENT).resolve(name));
      }
    }
    return folders;
  }

  private static boolean make(Path folder) {
    Path parent = folder.getParent();
    try {
      makeIn(parent, folder);
      return true;
    } catch (FileAlreadyExistsException e) {
      throw new IllegalStateException("the control group " + folder + " is in use", e);
    } catch (IOException e) {
      return false;
    }
  }

  private static void makeIn(Path parent, Path folder) throws IOException {
    Files.createDirectories(parent);
    // A group gets only those controllers that all groups above it pass on.
    passControllersOn(parent.getParent());
    passControllersOn(parent);
    try {
      Files.createDirectory(folder);
    } catch (FileAlreadyExistsException e) {
      // A new one, since the counters of the old one tell of other processes.
      delete(folder);
      Files.createDirectory(folder);
    } catch (NoSuchFileException e) {
      // Somebody removed the parent while it was empty.
      Files.createDirectories(parent);
      passControllersOn(parent);
      Files.createDirectory(folder);
    }
  }

  /** Does what is possible: a group without controllers can still be killed as a whole. */
  private static void passControllersOn(Path folder) {
    Path control = folder.resolve("cgroup.subtree_control");
    List<String> available =
        Stream.of(read(folder.resolve("cgroup.controllers")).orElse("").split("\\s+")).toList();
    List<String> wanted =
        Stream.of(Controller.values())
            .map(Controller::toString)
            .filter(available::contains)
            .map(controller -> "+" + controller)
            .toList();
    // The kernel takes all of them or none.
    if (!wanted.isEmpty() && !write(control, String.join(" ", wanted))) {
      wanted.forEach(one -> write(control, one));
    }
  }

  /**
   * Limits the memory of all processes together, swap included where the kernel counts it. False if
   * that is impossible.
   */
  boolean limitMemory(long bytes) {
    if (bytes <= 0) {
      throw new IllegalArgumentException("a limit of " + bytes + " bytes of memory");
    }
    String limit = Long.toString(bytes);
    if (unified) {
      boolean limited = write(Controller.MEMORY, "memory.max", limit);
      // The limit of memory does not include swap here, so there is none.
      write(Controller.MEMORY, "memory.swap.max", "0");
      return limited;
    }
    // The limit with swap is never below the one without, so it is raised first and lowered last.
    boolean limited =
        write(Controller.MEMORY, "memory.limit_in_bytes", limit)
            || write(Controller.MEMORY, "memory.memsw.limit_in_bytes", limit)
                && write(Controller.MEMORY, "memory.limit_in_bytes", limit);
    if (limited && !write(Controller.MEMORY, "memory.memsw.limit_in_bytes", limit)) {
      // This kernel does not count swap.
      write(Controller.MEMORY, "memory.swappiness", "0");
    }
    return limited;
  }

  /** Limits the time on CPUs of all processes together. False if that is impossible. */
  boolean limitCpus(double cpus) {
    if (!(cpus > 0 && cpus < Long.MAX_VALUE / CPU_PERIOD_MICROS)) {
      throw new IllegalArgumentException("a limit of " + cpus + " CPUs");
    }
    long quota = Math.max(MIN_CPU_QUOTA_MICROS, Math.round(cpus * CPU_PERIOD_MICROS));
    if (unified) {
      return write(Controller.CPU, "cpu.max", quota + " " + CPU_PERIOD_MICROS);
    }
    return write(Controller.CPU, "cpu.cfs_period_us", Long.toString(CPU_PERIOD_MICROS))
        && write(Controller.CPU, "cpu.cfs_quota_us", Long.toString(quota));
  }

  /**
   * Limits how many processes and threads there may be at one time; the kernel counts each thread.
   * False if that is impossible.
   */
  boolean limitProcesses(long count) {
    if (count < 0) {
      throw new IllegalArgumentException("a limit of " + count + " processes");
    }
    return write(Controller.PIDS, "pids.max", Long.toString(count));
  }

  /** A process joins by writing its pid, or 0 for itself, into each of these files. */
  List<Path> procsFiles() {
    return folders.values().stream().distinct().map(folder -> folder.resolve(PROCESSES)).toList();
  }

  /** Lets the shell that runs it join, with all that it starts from then on; fails if it cannot. */
  String joinScript() {
    return procsFiles().stream()
        // Not $$, which in a namespace of its own is not what the kernel expects here.
        .map(file -> "echo 0 >'" + file.toString().replace("'", "'\\''") + "'")
        .collect(Collectors.joining(" && ", "{ ", "; }"));
  }

  /** The pids of all processes that joined, or whose parents did; without zombies. */
  List<Integer> processes() {
    Set<Integer> pids = new TreeSet<>();
    for (Path folder : allFolders()) {
      read(folder.resolve(PROCESSES))
          .ifPresent(text -> text.lines().map(Integer::valueOf).forEach(pids::add));
    }
    // Stands for each process that this process's namespace cannot see.
    pids.remove(0);
    return List.copyOf(pids);
  }

  /**
   * Kills all processes, and returns when none is left: false if some do not die within 10 seconds,
   * as happens while a driver does not answer. Nothing should be started in the group afterwards.
   * An interruption does not hurry it.
   */
  boolean kill() {
    if (processes().isEmpty()) {
      return true;
    }
    boolean byKernel = folders.values().stream().anyMatch(Cgroup::killByKernel);
    if (!byKernel) {
      // Else a process could start others faster than we kill them.
      write(Controller.PIDS, "pids.max", "0");
    }
    return retry(
        KILL_TIMEOUT,
        () -> {
          if (!byKernel) {
            killEach();
          }
          return processes().isEmpty();
        });
  }

  private static boolean killByKernel(Path folder) {
    return write(folder.resolve("cgroup.kill"), "1");
  }

  private void killEach() {
    List<ProcessHandle> handles =
        processes().stream().map(ProcessHandle::of).flatMap(Optional::stream).toList();
    // A handle stands for one process, not for its number. Who is here after we got the handle is
    // either that process, or another one that the handle does not harm.
    List<Integer> still = processes();
    for (ProcessHandle handle : handles) {
      if (still.contains((int) handle.pid()) && !handle.equals(ProcessHandle.current())) {
        handle.destroyForcibly();
      }
    }
  }

  /**
   * The most memory that all processes had together, in bytes, with the files that the kernel
   * cached for them. Empty if this kernel does not tell.
   */
  OptionalLong peakMemory() {
    Path folder = folders.get(Controller.MEMORY);
    if (folder == null) {
      return OptionalLong.empty();
    }
    return read(folder.resolve(unified ? "memory.peak" : "memory.max_usage_in_bytes"))
        .map(text -> OptionalLong.of(Long.parseLong(text.strip())))
        .orElse(OptionalLong.empty());
  }

  /** Whether the kernel killed a process because the memory was used up. */
  boolean outOfMemory() {
    String file = unified ? "memory.events" : "memory.oom_control";
    return allFolders().stream()
        .flatMap(folder -> read(folder.resolve(file)).stream())
        .flatMap(String::lines)
        .anyMatch(line -> line.startsWith("oom_kill ") && !line.equals("oom_kill 0"));
  }

  /** Removes the group, if no process is in it. False if it is still there. */
  boolean remove() {
    // A process leaves the list a moment before the kernel lets the group go.
    return retry(
        REMOVE_TIMEOUT,
        () -> {
          boolean removed = true;
          for (Path folder : allFolders()) {
            try {
              delete(folder);
            } catch (IOException e) {
              removed = false;
            }
          }
          return removed;
        },
        () -> !processes().isEmpty());
  }

  /** Our folders and those that processes of the run made in them, the inner ones first. */
  private List<Path> allFolders() {
    List<Path> all = new ArrayList<>();
    for (Path folder : Set.copyOf(folders.values())) {
      collect(folder, all);
    }
    all.sort(Comparator.comparing(Path::getNameCount).reversed());
    return all;
  }

  private static void collect(Path folder, List<Path> all) {
    if (!Files.isDirectory(folder)) {
      return;
    }
    all.add(folder);
    try (Stream<Path> entries = Files.list(folder)) {
      entries.filter(Files::isDirectory).forEach(entry -> collect(entry, all));
    } catch (IOException | UncheckedIOException e) {
      // It was removed meanwhile.
    }
  }

  private static void delete(Path folder) throws IOException {
    try {
      Files.deleteIfExists(folder);
    } catch (IOException e) {
      // What the kernel says of a group with processes or groups is "busy", which has no class.
      FileAlreadyExistsException inUse = new FileAlreadyExistsException(folder.toString());
      inUse.initCause(e);
      throw inUse;
    }
  }

  private boolean write(Controller controller, String file, String text) {
    Path folder = folders.get(controller);
    return folder != null && write(folder.resolve(file), text);
  }

  private static boolean write(Path file, String text) {
    try {
      Files.writeString(file, text, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  private static Optional<String> read(Path file) {
    try {
      return Optional.of(Files.readString(file));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  private static boolean retry(Duration timeout, BooleanSupplier attempt) {
    return retry(timeout, attempt, () -> false);
  }

  private static boolean retry(Duration timeout, BooleanSupplier attempt, BooleanSupplier giveUp) {
    long start = System.nanoTime();
    boolean interrupted = false;
    try {
      while (true) {
        if (attempt.getAsBoolean()) {
          return true;
        }
        if (System.nanoTime() - start > timeout.toNanos() || giveUp.getAsBoolean()) {
          return false;
        }
        try {
          TimeUnit.MILLISECONDS.sleep(2);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
