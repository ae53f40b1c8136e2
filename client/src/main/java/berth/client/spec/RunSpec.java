package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.InvalidValueException;
import berth.text.Values;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What is to be run, in what, with what, and where. Made by a {@link Builder}:
 *
 * <pre>{@code
 * RunSpec.builder().service("tensorflow").script("train.py", "--epochs", "3").gpus(2).build()
 * }</pre>
 *
 * @param name what it is, for people
 * @param service the name that an administrator gave an image; empty: none
 * @param image an image by tag or digest; empty: none
 * @param entrypoint replaces the image's; empty: the image's own
 * @param program what runs
 * @param pip packages of Python that are installed before it starts, as {@code pip install} takes
 *     them; paths are below the files that are sent along
 * @param env variables
 * @param resources the GPUs and ports that it needs, and where it may get them
 * @param limits what it may use
 * @param hostNetwork whether it sees the server's network, as those need who serve others
 * @param mounts folders of the server that it sees
 * @param user as whom it runs; empty: as the image says, or the server's own user
 */
public record RunSpec(
    String name,
    String service,
    String image,
    Optional<List<String>> entrypoint,
    Program program,
    List<String> pip,
    Map<String, String> env,
    Resources resources,
    RunLimits limits,
    boolean hostNetwork,
    List<Mount> mounts,
    Optional<RunUser> user) {

  /**
   * A folder of the server that the program sees.
   *
   * @param source its absolute path there
   * @param target the absolute path for the program
   */
  public record Mount(String source, String target, boolean readOnly) {
    public Mount {
      check(
          source.startsWith("/") && target.startsWith("/"),
          "the mount " + source + ":" + target + " needs absolute paths");
    }

    /**
     * Reads {@code SRC[:DST][:ro]}, as docker has it; without {@code DST} both paths are the same.
     *
     * @throws BerthException if it is something else
     */
    public static Mount parse(String text) {
      List<String> parts = new ArrayList<>(List.of(text.split(":", -1)));
      String mode = parts.size() > 1 ? parts.get(parts.size() - 1) : "";
      if (mode.equals("ro") || mode.equals("rw")) {
        parts.remove(parts.size() - 1);
      }
      check(
          parts.size() <= 2 && parts.stream().allMatch(part -> part.startsWith("/")),
          "'" + text + "' is not SRC[:DST][:ro] with absolute paths, for example /data:/data:ro");
      return new Mount(parts.get(0), parts.get(parts.size() - 1), mode.equals("ro"));
    }
  }

  /**
   * @throws BerthException INVALID if something contradicts itself
   */
  public RunSpec {
    pip = List.copyOf(pip);
    env = Map.copyOf(env);
    mounts = List.copyOf(mounts);
    entrypoint = entrypoint.map(List::copyOf);
    check(service.isEmpty() || image.isEmpty(), "give either a service or an image, not both");
    check(
        !program.words().isEmpty() || !service.isEmpty() || !image.isEmpty(),
        "nothing to run: set a script, a command, a service or an image");
    check(
        pip.isEmpty() || !program.words().isEmpty(),
        "Python packages require a script or a command");
  }

  /** The same with another program. */
  public RunSpec with(Program other) {
    return new RunSpec(
        name,
        service,
        image,
        entrypoint,
        other,
        pip,
        env,
        resources,
        limits,
        hostNetwork,
        mounts,
        user);
  }

  /** Begins a run of which nothing is said. */
  public static Builder builder() {
    return new Builder();
  }

  static String negative(int gpus) {
    return "number of GPUs must not be negative: " + gpus + " (use allGpus() for all)";
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }

  /**
   * Gathers what a run is made of. What is never said has the default that the record names. For
   * one thread.
   */
  public static final class Builder extends ResourcesBuilder<Builder> {
    private String name = "";
    private String service = "";
    private String image = "";
    private Optional<List<String>> entrypoint = Optional.empty();
    private List<String> words = List.of();
    private boolean isCommand;
    private Optional<Path> files = Optional.empty();
    private List<String> interpreter = List.of();
    private List<String> pip = List.of();
    private final Map<String, String> env = new LinkedHashMap<>();
    private Optional<Duration> timeLimit = Optional.empty();
    private Optional<Warning> warning = Optional.empty();
    private Optional<IdleLimit> idle = Optional.empty();
    private Optional<Duration> stopGrace = Optional.empty();
    private long memoryBytes;
    private double cpus;
    private long processes;
    private long sharedMemoryBytes;
    private boolean hostNetwork;
    private final List<Mount> mounts = new ArrayList<>();
    private Optional<RunUser> user = Optional.empty();

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /** What it is, in a few words that others see. */
    public Builder name(String name) {
      this.name = name;
      return this;
    }

    /** Runs in the image that the administrator gave this name, rather than in another one. */
    public Builder service(String service) {
      this.service = service;
      this.image = "";
      return this;
    }

    /** Runs in this image, rather than in that of a service. */
    public Builder image(String image) {
      this.image = image;
      this.service = "";
      return this;
    }

    /** Replaces the image's entrypoint; without words: the command is run directly. */
    public Builder entrypoint(List<String> words) {
      this.entrypoint = Optional.of(words);
      return this;
    }

    /** Runs a script of this machine: below {@link #files}, if those are sent, else a file. */
    public Builder script(String script, String... arguments) {
      List<String> all = new ArrayList<>(List.of(script));
      all.addAll(List.of(arguments));
      return program(all, false);
    }

    /** Runs something that the image has. */
    public Builder command(String... words) {
      return program(List.of(words), true);
    }

    /** The same for words that are at hand as a list. */
    public Builder program(List<String> words, boolean isCommand) {
      this.words = words;
      this.isCommand = isCommand;
      return this;
    }

    /**
     * Sends this folder along, all but {@code .git}, {@code berth-logs} and what its {@code
     * .berthignore} names; the program starts in it.
     */
    public Builder files(Path folder) {
      this.files = Optional.of(folder);
      return this;
    }

    /** What runs the script, such as {@code python3 -u}; else the service or the script says it. */
    public Builder interpreter(List<String> words) {
      this.interpreter = words;
      return this;
    }

    /** Installs these packages of Python before the start, as {@code pip install} takes them. */
    public Builder pip(List<String> packages) {
      this.pip = packages;
      return this;
    }

    /** Sets a variable. */
    public Builder env(String name, String value) {
      env.put(name, value);
      return this;
    }

    /** The most memory that it may use, which must be free in the beginning, such as {@code 8g}. */
    public Builder memory(String size) {
      this.memoryBytes = bytes(size);
      return this;
    }

    /** The most processors that it may use; also parts of one. */
    public Builder cpus(double cpus) {
      this.cpus = cpus;
      return this;
    }

    /** Size of /dev/shm, such as {@code 1g}. */
    public Builder sharedMemory(String size) {
      this.sharedMemoryBytes = bytes(size);
      return this;
    }

    /** How long it may run, such as {@code 2h}. */
    public Builder timeLimit(String duration) {
      return timeLimit(duration(duration));
    }

    /** How long it may run. */
    public Builder timeLimit(Duration duration) {
      this.timeLimit = Optional.of(duration);
      return this;
    }

    /** How long it may leave its GPUs unused; for a run that has GPUs. */
    public Builder idle(IdleLimit limit) {
      this.idle = Optional.of(limit);
      return this;
    }

    /**
     * Sends the program a signal, such as {@code USR1}, so long before its time limit ends, so that
     * it can save what it has. Needs {@link #timeLimit}.
     *
     * @throws BerthException INVALID if there can be no such signal or time
     */
    public Builder signalBeforeTimeLimit(String signal, Duration before) {
      this.warning = Optional.of(new Warning(signal, before));
      return this;
    }

    /** Time between SIGTERM and SIGKILL, when the run is ended. */
    public Builder stopGrace(Duration duration) {
      this.stopGrace = Optional.of(duration);
      return this;
    }

    /** The most processes and threads. */
    public Builder processes(long count) {
      this.processes = count;
      return this;
    }

    /** Runs as this user; {@link RunUser#current} is the one of this process. */
    public Builder user(RunUser user) {
      this.user = Optional.of(user);
      return this;
    }

    /** Shows the program the server's network. */
    public Builder hostNetwork() {
      this.hostNetwork = true;
      return this;
    }

    /** Shows the program a folder of the server. */
    public Builder mount(String source, String target, boolean readOnly) {
      mounts.add(new Mount(source, target, readOnly));
      return this;
    }

    /**
     * @throws BerthException INVALID if something contradicts itself, or there is nothing to run
     */
    public RunSpec build() {
      return new RunSpec(
          name,
          service,
          image,
          entrypoint,
          new Program(words, isCommand, files, interpreter),
          pip,
          env,
          resources(),
          new RunLimits(
              timeLimit, warning, idle, stopGrace, memoryBytes, cpus, processes, sharedMemoryBytes),
          hostNetwork,
          mounts,
          user);
    }

    static long bytes(String size) {
      try {
        return Values.size(size);
      } catch (InvalidValueException e) {
        throw new BerthException(Reason.INVALID, e.getMessage(), e);
      }
    }

    static Duration duration(String text) {
      try {
        return Values.duration(text);
      } catch (InvalidValueException e) {
        throw new BerthException(Reason.INVALID, e.getMessage(), e);
      }
    }
  }
}
