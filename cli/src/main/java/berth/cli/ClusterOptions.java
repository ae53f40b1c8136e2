package berth.cli;

import berth.cli.ServerFilterOptions.LabelOption;
import berth.client.cluster.ClusterFile;
import berth.client.cluster.ClusterPolicy;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.TaskGroup;
import berth.client.spec.Program;
import berth.client.spec.RunSpec;
import berth.command.DurationConverter;
import berth.command.GpuCountConverter;
import berth.text.Values;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;

/** The options that say what a cluster is, and the file that says it instead. */
final class ClusterOptions {
  /** What may be said beside a file. */
  private static final Set<String> BESIDE_A_FILE =
      Set.of(
          "--name",
          "--time",
          "--wait",
          "--no-wait",
          "--detach",
          "--log-dir",
          "--no-logs",
          "--quiet",
          "--json",
          "--registry",
          "--stacktrace");

  @Option(names = "--workers", paramLabel = "N", description = "Number of workers.")
  private int workers;

  @Option(names = "--ps", paramLabel = "N", description = "Number of parameter servers.")
  private int parameterServers;

  @Option(names = "--chief", description = "Add a chief.")
  private boolean chief;

  @Option(names = "--evaluator", description = "Add an evaluator without GPUs.")
  private boolean evaluator;

  @Option(names = "--tensorboard", description = "Add TensorBoard and show its address.")
  private boolean tensorboard;

  @Option(
      names = "--logdir",
      paramLabel = "DIR",
      description =
          "TensorBoard's log folder, for example in a --mount (default: its working folder).")
  private Optional<String> logdir = Optional.empty();

  @Option(
      names = {"-g", "--gpus"},
      paramLabel = "N",
      converter = GpuCountConverter.class,
      description = "GPUs for the chief and each worker: a number or 'all' (default: 0).")
  private Optional<Integer> gpus = Optional.empty();

  @Option(
      names = "--memory",
      paramLabel = "SIZE",
      converter = SizeText.class,
      description =
          "Memory limit per task, for example 8g, except TensorBoard; also used for placement.")
  private Optional<String> memory = Optional.empty();

  @Option(
      names = "--ps-memory",
      paramLabel = "SIZE",
      converter = SizeText.class,
      description = "Memory limit per parameter server (default: --memory).")
  private Optional<String> parameterServerMemory = Optional.empty();

  @Mixin private ImageOptions image = new ImageOptions();

  @Option(
      names = "--bundle",
      paramLabel = "DIR",
      description =
          "Upload this folder to every task, without .git, berth-logs and what its .berthignore"
              + " names; SCRIPT is a path in it.")
  private Optional<Path> bundle = Optional.empty();

  @Option(
      names = "--interpreter",
      paramLabel = "WORDS",
      description =
          "Interpreter of the script, for example 'python3 -u' (default: the service's, else its #!"
              + " line, else by extension: .py, .sh).")
  private Optional<String> interpreter = Optional.empty();

  @Option(
      names = "--pip",
      paramLabel = "PACKAGE",
      description =
          "Package to 'pip install' before the start; paths are relative to --bundle; repeatable.")
  private List<String> pip = new ArrayList<>();

  @Mixin private LabelOption labels = new LabelOption();

  @ArgGroup private Layout layout = new Layout();

  /** Where tasks go that could go to several servers. */
  static final class Layout {
    @Option(names = "--spread", description = "Spread tasks over many servers (default).")
    private boolean spread;

    @Option(names = "--pack", description = "Pack tasks on few servers.")
    private boolean pack;
  }

  @ArgGroup private Patience patience = new Patience();

  /** How long to wait. */
  static final class Patience {
    @Option(
        names = "--wait",
        paramLabel = "DURATION",
        converter = DurationConverter.class,
        description = "Maximum time to wait for resources (default: no limit).")
    private Optional<Duration> atMost = Optional.empty();

    @Option(names = "--no-wait", description = "Fail if resources are not free immediately.")
    private boolean none;
  }

  @Option(
      names = "--time",
      paramLabel = "DURATION",
      converter = TimeConverter.class,
      description = "Time limit, for example 2h or 1h30m; exit code 124.")
  private Optional<Duration> time = Optional.empty();

  @Mixin private RestartOptions keepAlive = new RestartOptions();

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Name, shown to other users (default: from the file or script).")
  private Optional<String> name = Optional.empty();

  @Parameters(
      arity = "0..*",
      paramLabel = "FILE|SCRIPT|COMMAND",
      hideParamSyntax = true,
      description = "Cluster file (.yaml, .yml), or a script, or after -- a command.")
  private List<String> words = new ArrayList<>();

  /**
   * Looks again at options that stand after a cluster file: unlike a script, it has none of its
   * own.
   *
   * @return whether they ask for help rather than for a cluster
   */
  boolean helpAsked(CommandSpec spec) {
    if (isFile(spec) && words.size() > 1) {
      String file = words.get(0);
      List<String> all = new ArrayList<>(spec.commandLine().getParseResult().originalArgs());
      all.remove(all.size() - words.size());
      all.add(file);
      spec.root().commandLine().parseArgs(all.toArray(String[]::new));
      if (spec.commandLine().isUsageHelpRequested()) {
        return true;
      }
      if (!words.equals(List.of(file))) {
        throw new ParameterException(
            spec.commandLine(),
            file + " is a cluster file, which takes no arguments such as '" + words.get(0) + "'");
      }
    }
    return false;
  }

  /** What was asked for. */
  ClusterRequest request(CommandSpec spec) {
    return isFile(spec) ? fromFile(spec) : fromOptions(spec);
  }

  private boolean isFile(CommandSpec spec) {
    return !words.isEmpty()
        && words.get(0).matches(".*\\.ya?ml")
        && !RunCommand.followDashes(spec, words);
  }

  private ClusterRequest fromFile(CommandSpec spec) {
    String file = words.get(0);
    String refused =
        spec.commandLine().getParseResult().matchedOptions().stream()
            .map(OptionSpec::longestName)
            .filter(option -> !BESIDE_A_FILE.contains(option))
            .filter(option -> !RestartOptions.BESIDE_A_FILE.contains(option))
            .collect(Collectors.joining(", "));
    if (!refused.isEmpty()) {
      throw new ParameterException(
          spec.commandLine(), file + " defines the cluster: leave out " + refused);
    }
    ClusterRequest read = ClusterFile.read(Path.of(file));
    return new ClusterRequest(
        name.orElse(read.name()),
        read.groups(),
        read.layout(),
        waitAtMost().or(read::waitAtMost),
        time.or(read::timeLimit),
        read.startTimeout(),
        read.stopGrace(),
        read.evaluatorGrace(),
        read.workerGrace(),
        keepAlive.over(read.policy()));
  }

  private Optional<Duration> waitAtMost() {
    return patience.none ? Optional.of(Duration.ZERO) : patience.atMost;
  }

  private ClusterRequest fromOptions(CommandSpec spec) {
    if (!chief && workers == 0) {
      throw new ParameterException(
          spec.commandLine(), "no tasks: use --workers N, --chief, or a cluster file (.yaml)");
    }
    if (words.isEmpty() && !image.given()) {
      throw new ParameterException(
          spec.commandLine(), "nothing to run: give a script, or a command after --");
    }
    if (logdir.isPresent() && !tensorboard) {
      throw new ParameterException(spec.commandLine(), "--logdir requires --tensorboard");
    }
    boolean isCommand = RunCommand.followDashes(spec, words);
    ClusterRequest.Builder request =
        ClusterRequest.named(
            name.orElseGet(
                () -> ClusterRequest.nameOf(Path.of(words.isEmpty() ? "" : words.get(0)))));
    request.layout(layout.pack ? ClusterRequest.Layout.PACK : ClusterRequest.Layout.SPREAD);
    waitAtMost().ifPresent(request::waitAtMost);
    time.ifPresent(request::timeLimit);
    keepAlive.restart().ifPresent(request::restart);
    request.policy(keepAlive.over(ClusterPolicy.USUAL));
    request.all(run -> sayForAll(run, isCommand));
    if (chief) {
      request.task(TaskGroup.CHIEF, 1, this::sayForTrainer);
    }
    if (workers != 0) {
      request.task(TaskGroup.WORKER, workers, this::sayForTrainer);
    }
    if (parameterServers != 0) {
      request.task(
          TaskGroup.PS,
          parameterServers,
          run -> parameterServerMemory.or(() -> memory).ifPresent(run::memory));
    }
    if (evaluator) {
      request.task(TaskGroup.EVALUATOR, 1, run -> memory.ifPresent(run::memory));
    }
    if (tensorboard) {
      request.task(
          TaskGroup.TENSORBOARD,
          1,
          run -> logdir.ifPresent(folder -> run.program(TaskGroup.tensorBoard(folder), true)));
    }
    ClusterRequest built = request.build();
    built.groups().forEach(group -> group.run().program().check(RunCommand.COMMAND_HINT));
    return built;
  }

  private void sayForAll(RunSpec.Builder run, boolean isCommand) {
    image.addTo(run);
    bundle.ifPresent(run::files);
    run.program(words, isCommand).pip(pip);
    interpreter.map(Program::words).ifPresent(run::interpreter);
    labels.labels().forEach(run::label);
  }

  private void sayForTrainer(RunSpec.Builder run) {
    gpus.ifPresent(run::gpusOrAll);
    memory.ifPresent(run::memory);
    keepAlive.idle().ifPresent(run::idle);
  }

  static final class SizeText implements ITypeConverter<String> {
    @Override
    public String convert(String text) {
      LimitOptions.read(text, Values::positiveSize);
      return text;
    }
  }

  static final class TimeConverter implements ITypeConverter<Duration> {
    @Override
    public Duration convert(String text) {
      return LimitOptions.read(text, Values::positiveDuration);
    }
  }
}
