package berth.cli;

import berth.host.gpu.GpuMonitor;
import berth.host.lock.Claim;
import berth.host.lock.GpuWish;
import berth.host.lock.HeldGpus;
import berth.host.lock.Keeper;
import berth.host.lock.LockFolder;
import berth.host.lock.LockProtocol;
import berth.host.lock.ReplacedProcess;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/**
 * {@code berth lock}: takes the locks without any daemon, then becomes the command. Since it is the
 * same process, signals, the terminal and the exit code are the command's own; a keeper holds the
 * locks for as long as it lives.
 */
@Command(
    name = "lock",
    sortOptions = false,
    description = {
      "Run a command on free GPUs of this machine.",
      "",
      "Takes the same locks as berthd and as services that use fasteners, sets NV_GPU,"
          + " CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, and becomes the command. The GPUs are"
          + " free again when it ends, however it ends.",
      "",
      "Asks the driver, not berthd, which GPUs are healthy: with drivers before R565 it also takes"
          + " GPUs that berthd keeps out of service after an error (XID).",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth lock --gpus 2 --wait 10m -- ./run_tf_mnist.sh",
      "Exit codes: the command's own; 125 if Berth failed, 126 if the command cannot be run, 127 if"
          + " there is none.",
    })
final class LockCommand implements Callable<Integer> {
  private static final int NOT_EXECUTABLE = 126;
  private static final int NOT_FOUND = 127;
  private static final Duration DRIVER_PATIENCE = Duration.ofSeconds(10);
  private static final int SHOWN_COMMAND = 60;

  @Mixin private GpuOptions gpuOptions;

  @Option(
      names = "--lock-dir",
      paramLabel = "DIR",
      defaultValue = "/tmp",
      description = "Lock file folder (default: ${DEFAULT-VALUE}).")
  private Path lockDir;

  @Option(
      names = "--simulate-gpus",
      paramLabel = "N|FILE",
      description = "Simulate N GPUs, or those described in FILE.")
  private Optional<String> simulateGpus = Optional.empty();

  @Option(
      names = "--ignore-strangers",
      description = "Take GPUs even if processes without a reservation use them.")
  private boolean ignoreStrangers;

  @Parameters(arity = "1..*", paramLabel = "COMMAND", description = "Command to run, after --.")
  private List<String> command;

  @Override
  public Integer call() throws InterruptedException {
    Optional<Path> program = find(command.get(0));
    if (program.isEmpty()) {
      Terminal.note("no command '" + command.get(0) + "'");
      return NOT_FOUND;
    }
    if (!Files.isExecutable(program.get()) || Files.isDirectory(program.get())) {
      Terminal.note("cannot execute " + program.get());
      return NOT_EXECUTABLE;
    }
    Map<String, String> environment;
    try (GpuMonitor gpus = monitor()) {
      gpus.awaitFirstSample(DRIVER_PATIENCE);
      environment = take(gpus);
    }
    ReplacedProcess.become(program.get(), command, environment);
    return NOT_EXECUTABLE;
  }

  private GpuMonitor monitor() {
    var timing = new GpuMonitor.Timing(Duration.ofSeconds(1), DRIVER_PATIENCE);
    return simulateGpus.isPresent()
        ? GpuMonitor.ofSimulation(simulateGpus.get(), "lock", timing)
        : GpuMonitor.ofNvml(Optional.empty(), timing);
  }

  /** Takes the locks, leaves them to a keeper, and returns the environment of the command. */
  private Map<String, String> take(GpuMonitor gpus) throws InterruptedException {
    GpuWish wish =
        new GpuWish(
            gpuOptions.count(), gpuOptions.ids(), gpuOptions.minFreeMemory(), gpuOptions.model());
    wish.checkAgainst(gpus.newest());
    if (!GpuWish.readable(gpus.newest())) {
      throw wish.refusal(gpus.newest());
    }
    Optional<Duration> limit = gpuOptions.waitAtMost();
    boolean waits = limit.isEmpty() || !limit.get().isZero();
    try (LockProtocol protocol =
            new LockProtocol(new LockFolder(lockDir), gpus, ignoreStrangers, new Vitals());
        Claim claim = new Claim(protocol, wish, true)) {
      limit.filter(time -> waits).ifPresent(time -> cancelAfter(time, claim, wish));
      claim.place(
          protocol
              .queue()
              .take(claim.placeWait())
              .orElseThrow(() -> claim.cancelled().orElseThrow()));
      HeldGpus held =
          claim.run(
              waits, why -> Terminal.note("waiting for GPUs" + (why.isEmpty() ? "" : ": " + why)));
      int self = (int) ProcessHandle.current().pid();
      held.describe(
          "berth lock (pid " + self + ") of " + System.getProperty("user.name") + ": " + shown());
      // The keeper cannot guard its locks against cleaners of the lock folder. A berthd does that
      // for it, see StandIns; without one, nobody does.
      Keeper.untilEndOf(
              self, held.locks().descriptors().values().stream().flatMap(List::stream).toList())
          .goOn();
      return environment(held);
    }
  }

  private static void cancelAfter(Duration time, Claim claim, GpuWish wish) {
    DaemonThreads.start(
        () -> {
          try {
            Thread.sleep(time.toMillis());
            claim.cancel(
                new BerthException(
                    Reason.TIMED_OUT,
                    wish.phrase(Math.max(1, wish.needed(1)))
                        + " asked, not free within "
                        + time.toMillis() / 1000.0
                        + " s"));
          } catch (InterruptedException e) {
            // The process ends.
          }
        },
        "wait-limit");
  }

  private static Map<String, String> environment(HeldGpus held) {
    String indices =
        held.gpus().stream().map(gpu -> "" + gpu.index()).collect(Collectors.joining(","));
    Map<String, String> environment = new TreeMap<>(System.getenv());
    restoreLocale(environment, System.getProperty("berth.callerLcAll"));
    environment.put("NV_GPU", indices);
    environment.put("CUDA_VISIBLE_DEVICES", indices);
    environment.put("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    return environment;
  }

  /**
   * Gives the command the locale of whoever called, where the start script replaced it.
   *
   * @param callerLcAll LC_ALL as it was, empty if it was not set; null if it was not replaced
   */
  static void restoreLocale(Map<String, String> environment, String callerLcAll) {
    if (callerLcAll == null) {
      return;
    }
    if (callerLcAll.isEmpty()) {
      environment.remove("LC_ALL");
    } else {
      environment.put("LC_ALL", callerLcAll);
    }
  }

  private String shown() {
    String words = String.join(" ", command).replaceAll("\\p{Cntrl}", " ");
    return words.length() <= SHOWN_COMMAND ? words : words.substring(0, SHOWN_COMMAND) + "...";
  }

  private static Optional<Path> find(String name) {
    if (name.contains("/")) {
      return Optional.of(Path.of(name)).filter(Files::exists);
    }
    String path = System.getenv().getOrDefault("PATH", "/usr/local/bin:/usr/bin:/bin");
    for (String folder : path.split(":")) {
      Path candidate = Path.of(folder.isEmpty() ? "." : folder, name);
      if (Files.isExecutable(candidate) && !Files.isDirectory(candidate)) {
        return Optional.of(candidate);
      }
    }
    return Optional.empty();
  }
}
