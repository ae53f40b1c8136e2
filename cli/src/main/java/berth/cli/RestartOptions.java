package berth.cli;

import berth.client.cluster.Cleaning;
import berth.client.cluster.ClusterPolicy;
import berth.client.cluster.RestartPolicy;
import berth.client.cluster.SuccessRule;
import berth.client.spec.IdleLimit;
import berth.client.spec.Warning;
import berth.command.DurationConverter;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;

/** The options that say how a cluster is kept alive, and how it ends. */
final class RestartOptions {
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
          "When to restart an ended task, at the same address: never (default), on-failure,"
              + " exit-code (128 and above only), always.")
  private Optional<RestartPolicy> restart = Optional.empty();

  @Option(
      names = "--max-restarts",
      paramLabel = "N",
      description = "Maximum restarts of all tasks together (default: 50, at most 10 per task).")
  private Optional<Integer> maxRestarts = Optional.empty();

  @Option(
      names = "--restart-scope",
      paramLabel = "task|cluster",
      description =
          "Restart the failed task (default) or the whole cluster. A lost server always restarts"
              + " the cluster.")
  private Optional<Scope> scope = Optional.empty();

  @Option(
      names = "--success",
      paramLabel = "RULE",
      converter = SuccessConverter.class,
      description =
          "When the training has succeeded: workers (the chief and all workers), chief (else worker"
              + " 0), or a share of the workers, for example 80%%. Default: workers, but those that"
              + " outlive their chief are stopped after a minute.")
  private Optional<SuccessRule> success = Optional.empty();

  @ArgGroup private Cleaned cleaned = new Cleaned();

  /** What is stopped at the end. */
  static final class Cleaned {
    @Option(
        names = "--clean",
        paramLabel = "WHAT",
        converter = CleaningConverter.class,
        description =
            "Cleanup at the end: running (stop all tasks, default), all (also delete their output"
                + " and files), ps (stop background tasks only), none.")
    private Optional<Cleaning> cleaning = Optional.empty();

    @Option(names = "--keep", description = "Keep tasks running at the end; same as --clean none.")
    private boolean keep;
  }

  @Option(
      names = "--ttl",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description =
          "Lifetime of kept tasks (default: 1d) and of the record of an ended detached cluster"
              + " (default: 7d).")
  private Optional<Duration> timeToLive = Optional.empty();

  @Option(
      names = "--signal",
      paramLabel = "SIGNAL@TIME",
      converter = LimitOptions.WarningConverter.class,
      description =
          "With --time: signal chief, workers and evaluator this long before the end, for example"
              + " USR1@60 (seconds), so that they can save.")
  private Optional<Warning> warning = Optional.empty();

  @Option(
      names = "--resubmit",
      paramLabel = "N",
      description = "With --time: restart the cluster at the time limit, at most N times.")
  private Optional<Integer> resubmissions = Optional.empty();

  @Option(
      names = "--checkpoints",
      paramLabel = "DIR",
      description = "Folder shared by all servers, passed to tasks as CHECKPOINT_DIR.")
  private Optional<String> checkpoints = Optional.empty();

  @Option(
      names = "--idle",
      paramLabel = "PERCENT@TIME",
      converter = LimitOptions.IdleConverter.class,
      description =
          "Stop the cluster when a task's GPU utilisation stays below this, for example 5%%@30m.")
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
