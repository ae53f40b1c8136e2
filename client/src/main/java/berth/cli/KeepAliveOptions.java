package berth.cli;

import berth.client.IdleLimit;
import berth.client.Warning;
import berth.client.cluster.Cleaning;
import berth.client.cluster.ClusterPolicy;
import berth.client.cluster.RestartPolicy;
import berth.client.cluster.SuccessRule;
import berth.command.DurationConverter;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;

/** The options that say how a cluster is kept alive, and how it ends. */
final class KeepAliveOptions {
  /** Those that may be said beside a file, and win over what it says. */
  static final Set<String> BESIDE_A_FILE =
      Set.of(
          "--max-restarts",
          "--restart-scope",
          "--success",
          "--clean",
          "--keep",
          "--ttl",
          "--signal",
          "--resubmit");

  @Option(
      names = "--restart",
      paramLabel = "POLICY",
      converter = RestartConverter.class,
      description =
          "When to start a task again that has ended, at the same address: never (default),"
              + " on-failure, exit-code (128 and above only), always.")
  private Optional<RestartPolicy> restart = Optional.empty();

  @Option(
      names = "--max-restarts",
      paramLabel = "N",
      description =
          "How often tasks may be started again, all together (default: 50; each 10 times).")
  private Optional<Integer> maxRestarts = Optional.empty();

  @Option(
      names = "--restart-scope",
      paramLabel = "task|cluster",
      description =
          "What starts again: the task that failed (default), or all of them. When a server is"
              + " lost, all start again, elsewhere.")
  private Optional<Scope> scope = Optional.empty();

  @Option(
      names = "--success",
      paramLabel = "RULE",
      converter = SuccessConverter.class,
      description =
          "When the training is done: workers (the chief and all workers, default), chief (else"
              + " worker 0), or a share of the workers such as 80%%.")
  private Optional<SuccessRule> success = Optional.empty();

  @ArgGroup private Cleaned cleaned = new Cleaned();

  /** What is stopped at the end. */
  static final class Cleaned {
    @Option(
        names = "--clean",
        paramLabel = "WHAT",
        converter = CleaningConverter.class,
        description =
            "What to stop at the end: running (all that still run, default), all (these, and delete"
                + " what tasks printed and left), ps (only those in the background), none.")
    private Optional<Cleaning> cleaning = Optional.empty();

    @Option(
        names = "--keep",
        description = "Stop nothing at the end, to look inside: the same as --clean none.")
    private boolean keep;
  }

  @Option(
      names = "--ttl",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description =
          "How long tasks that are kept go on (default: 1d), and how long a detached cluster is"
              + " known after its end (default: 7d).")
  private Optional<Duration> timeToLive = Optional.empty();

  @Option(
      names = "--signal",
      paramLabel = "SIGNAL@TIME",
      converter = LimitOptions.WarningConverter.class,
      description =
          "With --time: send this signal to all tasks so long before, such as USR1@60 (seconds), so"
              + " that they save what they have.")
  private Optional<Warning> warning = Optional.empty();

  @Option(
      names = "--resubmit",
      paramLabel = "N",
      description =
          "With --time: when the time is over, start all tasks again, at most so often; they go on"
              + " from what they saved.")
  private Optional<Integer> resubmissions = Optional.empty();

  @Option(
      names = "--checkpoints",
      paramLabel = "DIR",
      description =
          "A folder that all servers share and that tasks find in CHECKPOINT_DIR; it outlives"
              + " them.")
  private Optional<String> checkpoints = Optional.empty();

  @Option(
      names = "--idle",
      paramLabel = "PERCENT@TIME",
      converter = LimitOptions.IdleConverter.class,
      description =
          "End the cluster when the GPUs of a task are used less than that for so long, such as"
              + " 5%%@30m.")
  private Optional<IdleLimit> idle = Optional.empty();

  /** What starts again. */
  enum Scope {
    task,
    cluster
  }

  Optional<RestartPolicy> restart() {
    return restart;
  }

  Optional<IdleLimit> idle() {
    return idle;
  }

  /** What was said, and where nothing was, what {@code otherwise} says. */
  ClusterPolicy over(ClusterPolicy otherwise) {
    return new ClusterPolicy(
        maxRestarts.orElse(otherwise.maxRestarts()),
        scope.map(said -> said == Scope.cluster).orElse(otherwise.wholeRestarts()),
        otherwise.restartPause(),
        success.orElse(otherwise.success()),
        cleaned.keep ? Cleaning.NONE : cleaned.cleaning.orElse(otherwise.cleaning()),
        timeToLive.or(otherwise::timeToLive),
        warning.or(otherwise::warning),
        resubmissions.orElse(otherwise.resubmissions()),
        checkpoints.orElse(otherwise.checkpoints()));
  }

  /** Reads {@code on-failure}. */
  static final class RestartConverter implements ITypeConverter<RestartPolicy> {
    @Override
    public RestartPolicy convert(String text) {
      return LimitOptions.read(text, RestartPolicy::parse);
    }
  }

  /** Reads {@code running}. */
  static final class CleaningConverter implements ITypeConverter<Cleaning> {
    @Override
    public Cleaning convert(String text) {
      return LimitOptions.read(text, Cleaning::parse);
    }
  }

  /** Reads {@code 80%}. */
  static final class SuccessConverter implements ITypeConverter<SuccessRule> {
    @Override
    public SuccessRule convert(String text) {
      return LimitOptions.read(text, SuccessRule::parse);
    }
  }
}
