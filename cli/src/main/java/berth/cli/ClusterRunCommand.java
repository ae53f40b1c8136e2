package berth.cli;

import berth.client.call.RegistryClient;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterSubmission;
import berth.client.cluster.DetachedCluster;
import berth.client.cluster.LikelyMistakes;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth cluster run}. */
@Command(
    name = "run",
    sortOptions = false,
    customSynopsis = {
      "berth cluster run [OPTIONS] FILE.yaml",
      "       berth cluster run --workers N [OPTIONS] SCRIPT [ARGUMENTS]",
      "       berth cluster run --workers N [OPTIONS] -- COMMAND [ARGUMENTS]",
    },
    description = {
      "Run a distributed training on several servers.",
      "",
      "Starts all tasks or none, and shows their output, each line prefixed with its task. Tasks"
          + " find each other through TF_CONFIG, MASTER_ADDR, RANK and the like; in their arguments"
          + " {ps_hosts}, {worker_hosts}, {job_name}, {task_index}, {host} and {port} are replaced."
          + " Parameter servers and TensorBoard are stopped when the training is done. When a task"
          + " fails, all tasks are stopped, unless --restart is set.",
      "",
      "Options come before the script; everything after it is passed to it. A cluster file can be"
          + " combined with --name, --wait, --detach, --time, --signal, --resubmit, --max-restarts,"
          + " --success, --clean, --ttl and output options. Ctrl-C sends SIGTERM to all tasks, a"
          + " second Ctrl-C kills them.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster run mnist.yaml",
      "  berth cluster run -s tensorflow --workers 4 --ps 1 -g 1 train.py --epochs 3",
      "  berth cluster run -s pytorch --workers 2 -g all --bundle . src/train.py",
      "  berth cluster run -i busybox:1.35 --workers 2 -- echo {job_name} {task_index}",
      "  berth cluster run --detach --time 8h --signal USR1@120 --resubmit 5 mnist.yaml",
      "A cluster file, such as mnist.yaml:",
      "  service: tensorflow",
      "  files: .",
      "  script: train.py --epochs 3",
      "  tasks:",
      "    chief: {gpus: 1}",
      "    worker: {instances: 4, gpus: 1, model: A100}",
      "    ps: {instances: 2, memory: 8g}",
      "Exit codes: 0 on success, else that of the first task that failed; 124 on a time limit or"
          + " idle GPUs, 125 if Berth failed, 130 after Ctrl-C.",
    })
final class ClusterRunCommand implements Callable<Integer> {
  @Mixin private RegistryOption registry;
  @Mixin private ClusterOptions options;

  @Option(
      names = {"-d", "--detach"},
      description = "Let a server supervise the cluster, print its ID and return.")
  private boolean detach;

  @ArgGroup private Logs logs = new Logs();

  /** Where the output is kept. */
  static final class Logs {
    @Option(
        names = "--log-dir",
        paramLabel = "DIR",
        description =
            "Folder for task logs, such as worker-1.log, and cluster addresses (default:"
                + " berth-logs/NAME-TIME).")
    private Optional<Path> folder = Optional.empty();

    @Option(names = "--no-logs", description = "Do not write log files.")
    private boolean none;
  }

  @Option(
      names = "--json",
      description =
          "Print events as JSON lines: type in 'event', output in 'data'; the last line is the"
              + " result.")
  private boolean json;

  @Option(
      names = {"-q", "--quiet"},
      description = "Print only task output and errors.")
  private boolean quiet;

  private CommandSpec spec;

  @Spec
  void setSpec(CommandSpec spec) {
    this.spec = spec;
    // So that `train.py --epochs 3` keeps its options.
    spec.parser().stopAtPositional(true);
  }

  @Override
  public Integer call() throws IOException {
    if (options.helpAsked(spec)) {
      spec.commandLine().usage(spec.commandLine().getOut());
      return ExitCode.OK;
    }
    ClusterRequest request = options.request(spec);
    LikelyMistakes.of(request).forEach(Terminal::note);
    if (detach) {
      return detach(request);
    }
    ClusterView view =
        ClusterView.ofThisProcess(
            json ? RunView.Detail.JSON : quiet ? RunView.Detail.QUIET : RunView.Detail.ALL,
            request);
    try (RegistryClient client = registry.require();
        ClusterLogs kept = logs.none ? null : ClusterLogs.in(folder(request), view::note)) {
      if (kept != null) {
        view.keepIn(kept);
      }
      return follow(client, request, view);
    }
  }

  private int detach(ClusterRequest request) throws IOException {
    if (logs.folder.isPresent() || quiet) {
      throw new ParameterException(
          spec.commandLine(), "--detach cannot be combined with --log-dir or --quiet");
    }
    try (RegistryClient client = registry.require()) {
      DetachedCluster cluster = new ClusterSubmission(client).submit(request);
      Terminal.note(
          cluster.server()
              + " supervises "
              + cluster.name()
              + "; 'berth cluster attach "
              + cluster.name()
              + "' shows it");
      Terminal.line(json ? ClusterJson.detached(cluster) : cluster.id());
    }
    return ExitCode.OK;
  }

  private Path folder(ClusterRequest request) {
    return logs.folder.orElseGet(
        () -> ClusterLogs.usual(ClusterLogs.USUAL, request.name(), LocalDateTime.now()));
  }

  private static int follow(RegistryClient client, ClusterRequest request, ClusterView view) {
    Signalled signalled = new Signalled(request.name());
    CancelOnSignal cancel = CancelOnSignal.install(signalled, view::note);
    try (Cluster cluster = Cluster.start(client, request, view)) {
      signalled.cluster = cluster;
      CompletableFuture.anyOf(
              cluster.ended().handle((result, failure) -> result), view.unwritable())
          .join();
      if (view.unwritable().isDone()) {
        // `berth cluster run ... | head` ends as a local program would: with the one who reads it.
        cluster.stop();
      }
      ClusterResult result = cluster.await();
      int exitCode = exitCode(result, cancel.exitCode());
      view.ended(result, exitCode);
      return exitCode(view, exitCode);
    } catch (BerthException e) {
      // One that never started has no end that could be shown.
      if (e.reason() == Reason.CANCELLED && cancel.exitCode().isPresent()) {
        view.note(e.getMessage());
        return cancel.exitCode().getAsInt();
      }
      throw e;
    }
  }

  private static int exitCode(ClusterView view, int otherwise) {
    if (!view.unwritable().isDone()) {
      return otherwise;
    }
    RunView.checkReaderHasGone(new UncheckedIOException(view.unwritable().join()));
    return RunCommand.BROKEN_PIPE;
  }

  /**
   * What the command exits with.
   *
   * @param cancelledHere what a cluster has that this command cancelled
   */
  static int exitCode(ClusterResult result, OptionalInt cancelledHere) {
    return result.outcome() == ClusterResult.Outcome.CANCELLED
        ? cancelledHere.orElse(result.exitCode())
        : result.exitCode();
  }

  /** The cluster, as signals see it. */
  private static final class Signalled implements CancelOnSignal.Running {
    private final String name;
    private volatile Cluster cluster;

    Signalled(String name) {
      this.name = name;
    }

    @Override
    public String name() {
      return cluster == null ? "" : name;
    }

    @Override
    public void cancel(boolean force) {
      if (force) {
        cluster.kill();
      } else {
        cluster.stop();
      }
    }
  }
}
