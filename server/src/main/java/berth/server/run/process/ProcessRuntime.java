package berth.server.run.process;

import berth.host.lock.KernelFiles;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.Launch;
import berth.server.run.RequestedRun;
import berth.server.run.RunEngine;
import berth.server.run.RunFolder;
import berth.server.run.UnlinkedFiles;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs as plain processes of this machine, for machines without containers. Nothing isolates them
 * from it. A small shell starts each program and writes down how it ended, so that this process
 * need not be there for that; a control group, where the kernel gives one, limits it and keeps it
 * together.
 */
public final class ProcessRuntime implements RunEngine {
  private static final Logger log = LoggerFactory.getLogger(ProcessRuntime.class);

  private static final int NOT_THERE = 137;
  private static final int MOST_CODE = 255;

  // Those below lead to root by way of what belongs to them: the engine's socket, disks, passwords.
  private static final int FIRST_OF_PEOPLE = 1000;

  // "users", the first group of everybody on some systems.
  private static final int GROUP_OF_PEOPLE = 100;

  private static final List<Path> USUAL_SOCKETS =
      Stream.of(
              "/run/docker.sock",
              "/var/run/docker.sock",
              "/run/containerd/containerd.sock",
              "/run/podman/podman.sock",
              "/run/crio/crio.sock")
          .map(Path::of)
          .toList();

  /** The exit code of a program that one of these signals ends. */
  private static final Map<String, Integer> ENDING = Map.of("TERM", 143, "KILL", 137);

  private final Function<String, RunFolder> folders;
  private final boolean root = KernelFiles.isRoot();
  private final boolean allowRoot;
  private final List<Path> engineSockets;
  private final Map<String, Process> children = new ConcurrentHashMap<>();
  private final Map<String, Watcher> found = new ConcurrentHashMap<>();
  private final Set<Path> damaged = ConcurrentHashMap.newKeySet();

  /** With the usual sockets of container engines. */
  public ProcessRuntime(Function<String, RunFolder> folders, boolean allowRoot) {
    this(folders, allowRoot, List.of());
  }

  /**
   * @param folders where a run is
   * @param allowRoot whether programs may run as root, and as users and groups of the system
   * @param engineSockets those of container engines, beside the usual ones: whoever may use one is
   *     as good as root
   */
  public ProcessRuntime(
      Function<String, RunFolder> folders, boolean allowRoot, List<Path> engineSockets) {
    this.folders = folders;
    this.allowRoot = allowRoot;
    this.engineSockets = Stream.concat(USUAL_SOCKETS.stream(), engineSockets.stream()).toList();
    log.warn(
        "runs: plain processes without isolation, with all rights of {}",
        root && !allowRoot ? "the user of each run" : "the user of this berthd");
  }

  @Override
  public Info info() {
    return new Info(
        "process", "plain processes, no isolation", true, "not restricted", "", List.of());
  }

  @Override
  public Optional<String> problem() {
    return Optional.empty();
  }

  @Override
  public void check(Launch launch) {
    if (launch.command().isEmpty() && launch.entrypoint().map(List::isEmpty).orElse(true)) {
      throw invalid(
          "no script or command given; this server runs plain processes and has no images");
    }
    if (launch.user().isPresent() && !root) {
      throw invalid("another user requested, but only root can change it");
    }
    checkUser(launch.user());
    if (launch.network() == RequestedRun.Network.NONE) {
      throw invalid(
          "--network none requested, but this server runs plain processes, which share its"
              + " network");
    }
    for (Launch.Bind bind : launch.binds()) {
      if (!bind.target().equals(bind.source().toString())) {
        throw invalid(
            bind.source()
                + " is asked for at "
                + bind.target()
                + ", but plain processes see every folder where it is");
      }
    }
  }

  private void checkUser(Optional<RequestedRun.User> asked) {
    if (!root || allowRoot) {
      return;
    }
    if (asked.isEmpty()) {
      throw denied(
          "no user asked, and programs must not run as root here: name one with --user UID:GID; the"
              + " administrator can allow root with --allow-root");
    }
    RequestedRun.User user = asked.get();
    String words = "user " + user.uid() + ":" + user.gid() + " asked, but ";
    if (user.uid() == 0 || user.gid() == 0) {
      throw denied(
          words
              + "programs must not run as root here; the administrator can allow it with"
              + " --allow-root");
    }
    if (user.uid() < FIRST_OF_PEOPLE
        || user.gid() < FIRST_OF_PEOPLE && user.gid() != GROUP_OF_PEOPLE) {
      throw denied(
          words
              + "users and groups below "
              + FIRST_OF_PEOPLE
              + " belong to the system, and some are equivalent to root (group "
              + GROUP_OF_PEOPLE
              + " is not); the administrator can allow them with --allow-root");
    }
    for (Path socket : engineSockets) {
      if (mayUse(user.gid(), socket)) {
        throw denied(
            words
                + "group "
                + user.gid()
                + " may use the container engine at "
                + socket
                + ", which is equivalent to root; the administrator can allow it with"
                + " --allow-root");
      }
    }
  }

  // Only one of root's own makes anybody root.
  private static boolean mayUse(int gid, Path socket) {
    try {
      return Files.getAttribute(socket, "unix:gid").equals(gid)
          && Files.getAttribute(socket, "unix:uid").equals(0);
    } catch (IOException e) {
      // There is none.
      return false;
    }
  }

  @Override
  public Created create(Launch launch, Progress progress) {
    // It may have been accepted when more was allowed.
    checkUser(launch.user());
    RunFolder folder = launch.folder();
    try {
      // The shell that opens the pipes is this user's; the program gets into its own folder only,
      // and there in a way that opens none of those around it.
      Files.setPosixFilePermissions(folder.io(), PosixFilePermissions.fromString("rwx------"));
      Files.setPosixFilePermissions(folder.mark(), PosixFilePermissions.fromString("rwx------"));
      Files.setPosixFilePermissions(folder.work(), PosixFilePermissions.fromString("rwx------"));
      // So that its process and its end are known also if the disk is full by then.
      Files.writeString(folder.io().resolve("pid.new"), ProgramCommand.ROOM);
      Files.writeString(folder.io().resolve("exit.new"), ProgramCommand.ROOM);
    } catch (IOException e) {
      throw new BerthException(Reason.UNAVAILABLE, "cannot prepare " + folder.path(), e);
    }
    return new Created(launch.runId(), Optional.empty());
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
    RunFolder folder = launch.folder();
    List<String> notEnforced = new ArrayList<>();
    if (!folder.started()) {
      Optional<Cgroup> group = Cgroup.create(launch.runId());
      limit(launch, group, notEnforced);
      try {
        ProgramCommand command = new ProgramCommand(launch, group);
        ProcessBuilder shell = new ProcessBuilder(command.words());
        shell.environment().clear();
        shell.environment().putAll(command.environment());
        shell.directory(folder.path().toFile());
        shell.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD);
        Process process = shell.start();
        process.getOutputStream().close();
        children.put(launch.runId(), process);
      } catch (IOException e) {
        throw new BerthException(
            Reason.CONFLICT, "the program cannot be started: " + e.getMessage(), e);
      }
      log.warn("{} runs as a plain process, without isolation", launch.runId());
    }
    Process child = children.get(launch.runId());
    OptionalInt pid = child != null ? OptionalInt.of((int) child.pid()) : living(launch.runId());
    return new Running("", pid, false, notEnforced);
  }

  private static void limit(Launch launch, Optional<Cgroup> group, List<String> notEnforced) {
    if (launch.limits().memory().isPresent()
        && !group
            .map(cgroup -> cgroup.limitMemory(launch.limits().memory().getAsLong()))
            .orElse(false)) {
      notEnforced.add("memory");
    }
    if (launch.limits().cpus().isPresent()
        && !group
            .map(cgroup -> cgroup.limitCpus(launch.limits().cpus().getAsDouble()))
            .orElse(false)) {
      notEnforced.add("CPUs");
    }
    if (launch.limits().processes().isPresent()
        && !group
            // One more for the shell that waits for the program.
            .map(cgroup -> cgroup.limitProcesses(launch.limits().processes().getAsLong() + 1))
            .orElse(false)) {
      notEnforced.add("processes");
    }
    if (launch.limits().sharedMemory().isPresent()) {
      notEnforced.add("shared memory");
    }
  }

  @Override
  public Exit await(String runId) throws InterruptedException {
    Process child = children.get(runId);
    if (child != null) {
      child.waitFor();
    } else {
      awaitStranger(runId);
    }
    Cgroup group = Cgroup.open(runId);
    boolean outOfMemory = group.outOfMemory();
    // What the program left behind ends with it.
    group.kill();
    Path file = folders.apply(runId).io().resolve("exit");
    try {
      int code = Integer.parseInt(Files.readString(file).trim());
      if (code < 0 || code > MOST_CODE) {
        throw new NumberFormatException("code " + code);
      }
      Instant at = Files.getLastModifiedTime(file).toInstant();
      return new Exit(code, outOfMemory && code != 0, Optional.of(at), "");
    } catch (NoSuchFileException e) {
      return new Exit(NOT_THERE, outOfMemory, Optional.empty(), "its watcher shell was killed");
    } catch (IOException | NumberFormatException e) {
      log.warn("{} is damaged ({}): how {} ended is not known", file, e.getMessage(), runId);
      return new Exit(
          NOT_THERE,
          outOfMemory,
          Optional.empty(),
          "it has ended with an unknown exit code: " + file + " is damaged");
    }
  }

  // The child of an earlier daemon.
  private void awaitStranger(String runId) throws InterruptedException {
    OptionalInt pid = living(runId);
    while (pid.isPresent()) {
      Optional<ProcessHandle> process = ProcessHandle.of(pid.getAsInt());
      if (process.isEmpty()) {
        return;
      }
      try {
        process.get().onExit().get(50, TimeUnit.MILLISECONDS);
      } catch (TimeoutException e) {
        // Looked at again: the JDK notices the end of those who are not its children late.
      } catch (ExecutionException e) {
        throw new IllegalStateException(e);
      }
      pid = living(runId);
    }
  }

  /**
   * The shell that watches a program, if it lives: the very process, not a later one of the same
   * id. Also if the note of it is damaged or missing: a program must not end for that.
   */
  private OptionalInt living(String runId) {
    Optional<Watcher> watcher =
        noted(runId)
            .filter(Watcher::lives)
            .or(() -> Optional.ofNullable(found.get(runId)).filter(Watcher::lives))
            .or(() -> search(runId));
    return watcher.map(it -> OptionalInt.of(it.pid)).orElse(OptionalInt.empty());
  }

  private Optional<Watcher> noted(String runId) {
    Path file = folders.apply(runId).io().resolve("pid");
    try {
      String[] noted = Files.readString(file).trim().split(" ");
      if (noted.length != 3) {
        throw new NumberFormatException(noted.length + " words");
      }
      Watcher watcher = new Watcher(Integer.parseInt(noted[0]), Long.parseLong(noted[1]));
      return KernelFiles.bootId().equals(noted[2]) ? Optional.of(watcher) : Optional.empty();
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IOException | NumberFormatException e) {
      if (damaged.add(file)) {
        log.warn("{} is damaged ({}); looking for the process of {}", file, e.getMessage(), runId);
      }
      return Optional.empty();
    }
  }

  /** Looks through all processes of this user. */
  private Optional<Watcher> search(String runId) {
    Path io = folders.apply(runId).io();
    try (DirectoryStream<Path> processes = Files.newDirectoryStream(Path.of("/proc"), "[1-9]*")) {
      for (Path process : processes) {
        if (isWatcher(process, runId, io)) {
          int pid = Integer.parseInt(process.getFileName().toString());
          OptionalLong start = KernelFiles.startOf(pid);
          if (start.isPresent()) {
            Watcher watcher = new Watcher(pid, start.getAsLong());
            found.put(runId, watcher);
            return Optional.of(watcher);
          }
        }
      }
    } catch (IOException | DirectoryIteratorException | NumberFormatException e) {
      log.warn("cannot look for the process of {}: {}", runId, e.getMessage());
    }
    return Optional.empty();
  }

  // It is ours, has the run's id among its words, works in the folder of the pipes, where no
  // program
  // gets, and leads a session, which its own children do not.
  private static boolean isWatcher(Path process, String runId, Path io) {
    try {
      return Files.getAttribute(process, "unix:uid")
              .equals(Files.getAttribute(Path.of("/proc/self"), "unix:uid"))
          && Arrays.asList(text(process.resolve("cmdline")).split("\0")).contains(runId)
          && Files.isSameFile(process.resolve("cwd"), io)
          && KernelFiles.leadsSession(Integer.parseInt(process.getFileName().toString()));
    } catch (IOException | NumberFormatException e) {
      // It has ended, or may not be looked at.
      return false;
    }
  }

  // The words of others are any bytes.
  private static String text(Path file) throws IOException {
    return new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
  }

  private record Watcher(int pid, long start) {
    boolean lives() {
      return KernelFiles.startOf(pid).equals(OptionalLong.of(start));
    }
  }

  private OptionalInt pidOf(String runId) {
    Process child = children.get(runId);
    return child != null && child.isAlive() ? OptionalInt.of((int) child.pid()) : living(runId);
  }

  @Override
  public void signal(String runId, String signal) {
    OptionalInt pid = pidOf(runId);
    if (pid.isEmpty()) {
      return;
    }
    if (ENDING.containsKey(signal)) {
      noteEnd(runId, ENDING.get(signal));
    }
    if (signal.equals("KILL")) {
      kill(runId, pid.getAsInt());
      return;
    }
    try {
      new ProcessBuilder(HostTools.of("kill"), "-" + signal, "--", "-" + pid.getAsInt())
          .redirectErrorStream(true)
          .redirectOutput(ProcessBuilder.Redirect.DISCARD)
          .start()
          .waitFor();
    } catch (IOException e) {
      log.warn("cannot send SIG{} to {}: {}", signal, runId, e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  // For a program that is not started yet: it finds this note, or the signal finds it.
  private void noteEnd(String runId, int code) {
    Path io = folders.apply(runId).io();
    try {
      Path note = Files.writeString(io.resolve("end.new"), code + "\n");
      Files.move(note, io.resolve("end"), StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      log.warn("cannot record the end of {}: {}", runId, e.getMessage());
    }
  }

  // All but the shell, which writes down how the program ended.
  private static void kill(String runId, int shell) {
    List<Integer> inGroup = Cgroup.open(runId).processes();
    inGroup.stream()
        .filter(pid -> pid != shell)
        .flatMap(pid -> ProcessHandle.of(pid).stream())
        .forEach(ProcessHandle::destroyForcibly);
    try (Stream<ProcessHandle> descendants =
        ProcessHandle.of(shell).stream().flatMap(ProcessHandle::descendants)) {
      descendants.forEach(ProcessHandle::destroyForcibly);
    }
  }

  @Override
  public OptionalLong peakMemory(String runId) {
    return Cgroup.open(runId).peakMemory();
  }

  /** What it writes elsewhere is the machine's, and that of the user it runs as. */
  @Override
  public DiskShare diskShare(String runId) {
    Set<Integer> pids = new HashSet<>(Cgroup.open(runId).processes());
    pidOf(runId)
        .ifPresent(
            shell -> {
              try (Stream<ProcessHandle> descendants =
                  ProcessHandle.of(shell).stream().flatMap(ProcessHandle::descendants)) {
                descendants.forEach(process -> pids.add((int) process.pid()));
              }
            });
    String work = folders.apply(runId).work().toAbsolutePath() + "/";
    return new DiskShare(List.of(), UnlinkedFiles.bytes(pids, name -> name.startsWith(work)));
  }

  @Override
  public void remove(String runId) {
    children.remove(runId);
    found.remove(runId);
    damaged.removeIf(file -> file.startsWith(folders.apply(runId).path()));
    Cgroup group = Cgroup.open(runId);
    group.kill();
    group.remove();
  }

  // Whatever runs here belongs to a run that is known: there is nothing to find without a folder.
  @Override
  public void reap(Predicate<String> knownRun) {}

  @Override
  public void close() {}

  private static BerthException denied(String message) {
    return new BerthException(Reason.DENIED, message);
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
