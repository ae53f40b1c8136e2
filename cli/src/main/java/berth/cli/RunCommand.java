package berth.cli;

import berth.cli.ServerFilterOptions.LabelOption;
import berth.client.call.Download;
import berth.client.call.FollowedRun;
import berth.client.call.PlacedRun;
import berth.client.call.ProgramDelivery;
import berth.client.call.RegistryClient;
import berth.client.call.RunClient;
import berth.client.call.ThisUser;
import berth.client.spec.Program;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.DownloadFilesRequest;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.ServerFilter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth run}. */
@Command(
    name = "run",
    sortOptions = false,
    customSynopsis = {
      "berth run [OPTIONS] SCRIPT [ARGUMENTS]",
      "       berth run [OPTIONS] -- COMMAND [ARGUMENTS]",
    },
    description = {
      "Run a script or command on a server.",
      "",
      "Without --server, the best matching server of the registry is chosen; if none has enough"
          + " free GPUs, the run queues at one with a short queue.",
      "",
      "Options come before the script; everything after it is passed to it. Without --gpus and"
          + " --gpu the run gets no GPU. Standard input is not connected. Ctrl-C sends SIGTERM, a"
          + " second Ctrl-C SIGKILL.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth run --service tensorflow --gpus 1 train.py --epochs 3",
      "  berth run --image busybox:1.35 -- nproc",
      "  berth run -s tensorflow -g 2 --bundle . --output 'model/*.h5' src/train.py",
      "  berth run -s tensorflow -g 1 --pip pandas --pip 'scikit-learn<2' train.py",
      "  berth run -d -s tensorflow -g all --time 2h --signal USR1@60 train.py",
      "Exit codes: the program's own, also when killed for exceeding its memory or disk limit (125"
          + " if that is 0); 124 on a time limit or idle GPUs, 125 if Berth failed, 130 after"
          + " Ctrl-C.",
    })
final class RunCommand implements Callable<Integer> {
  static final int BROKEN_PIPE = 128 + 13;
  static final String COMMAND_HINT = "; to run a command of the image, put it after --";

  @Mixin private ServerOption server;
  @Mixin private LabelOption labels;
  @Mixin private GpuOptions gpus;
  @Mixin private ContainerOptions surroundings;
  @Mixin private LimitOptions limits;

  @Option(
      names = "--reservation",
      paramLabel = "ID",
      defaultValue = "",
      description = "Use the GPUs and ports of this reservation, which outlives the run.")
  private String reservation;

  @Option(
      names = "--ports",
      paramLabel = "N",
      defaultValue = "0",
      description = "Number of TCP ports to reserve, listed in BERTH_PORTS.")
  private int ports;

  @Option(
      names = "--bundle",
      paramLabel = "DIR",
      description =
          "Upload this folder without .git, berth-logs and what its .berthignore names; SCRIPT is"
              + " a path in it.")
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

  @Option(
      names = "--requirements",
      paramLabel = "FILE",
      description = "Local file of packages to 'pip install -r' before the start.")
  private Optional<Path> requirements = Optional.empty();

  @Option(
      names = {"-o", "--output"},
      paramLabel = "PATTERN",
      description = "Download these files after success, for example 'model/*.h5'; repeatable.")
  private List<String> outputs = new ArrayList<>();

  @Option(
      names = "--output-dir",
      paramLabel = "DIR",
      defaultValue = ".",
      description = "Local folder for --output (default: the current one).")
  private Path outputDir;

  @Mixin private DownloadLimit outputLimit;

  @Option(
      names = {"-d", "--detach"},
      description = "Run in the background and print the run ID; see 'berth attach'.")
  private boolean detach;

  @Option(
      names = "--name",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Name of the run, shown to other users.")
  private String name;

  @Option(
      names = "--request-id",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Idempotency key: a retry with the same key shows the same run.")
  private String requestId;

  @Option(names = "--json", description = "Print events as JSON lines (RunEvent).")
  private boolean json;

  @Option(
      names = {"-q", "--quiet"},
      description = "Print only the program's output and errors.")
  private boolean quiet;

  @Parameters(
      arity = "0..*",
      paramLabel = "SCRIPT|COMMAND",
      hideParamSyntax = true,
      description =
          "Local script, or after -- a command in the image (default: the image's own command,"
              + " which is announced).")
  private List<String> words = new ArrayList<>();

  private CommandSpec spec;

  @Spec
  void setSpec(CommandSpec spec) {
    this.spec = spec;
    // So that `train.py --epochs 3` keeps its options.
    spec.parser().stopAtPositional(true);
  }

  @Override
  public Integer call() throws IOException {
    RunCodeRequest request = request().build();
    if (!outputs.isEmpty() && !detach) {
      LocalOutputs.check(outputDir, outputs, outputLimit.force());
    }
    if (!quiet && !json) {
      notes().forEach(Terminal::note);
    }
    try (Servers servers = server.servers();
        ProgramDelivery program = delivery()) {
      ServerFilter filter = labels.filter(servers);
      if (servers.registry().isPresent() && reservation.isEmpty()) {
        return runAnywhere(servers.registry().get(), filter, request, program);
      }
      Address address =
          reservation.isEmpty() ? servers.one() : FoundReservation.server(servers, reservation);
      try (RunClient client = RunClient.of(address)) {
        RunCodeRequest.Builder whole = request.toBuilder();
        program.complete(
            whole,
            client,
            () -> client.listServices(ServerOption.TIMEOUT),
            UnaryOperator.identity());
        RunView view = view();
        return follow(
            () -> client, view, () -> new FollowedRun(client, events(view)).run(whole.build()));
      }
    }
  }

  private int runAnywhere(
      RegistryClient registry, ServerFilter filter, RunCodeRequest request, ProgramDelivery program)
      throws IOException {
    if (!requestId.isEmpty()) {
      throw refused("--request-id requires --server");
    }
    RunView view = view();
    try (PlacedRun run =
        new PlacedRun(
            registry, events(view), new PlacementNotes(view::unlessQuiet, view::forgetRun))) {
      return follow(
          run::client,
          view,
          () ->
              run.run(
                  request,
                  filter,
                  (whole, client, services) ->
                      program.complete(whole, client, () -> services, UnaryOperator.identity())));
    }
  }

  private RunView view() {
    return RunView.ofThisProcess(
        json ? RunView.Detail.JSON : quiet ? RunView.Detail.QUIET : RunView.Detail.ALL);
  }

  /** Who is shown what happens. */
  private Consumer<RunEvent> events(RunView view) {
    return detach
        ? event -> Terminal.line(json ? JsonOutput.line(event) : event.getAccepted().getRunId())
        : view;
  }

  /** The request, without the code and the command. */
  RunCodeRequest.Builder request() throws IOException {
    RunCodeRequest.Builder request =
        RunCodeRequest.newBuilder()
            .setPortCount(ports)
            .setLimits(limits.limits())
            .addAllOutputs(outputs)
            .setDetached(detach)
            .setOwner(ThisUser.owner())
            .setName(name)
            .setRequestId(requestId);
    surroundings.addTo(request);
    boolean wantsGpus = gpus.countGiven() && gpus.count() != 0 || !gpus.ids().isEmpty();
    if (!reservation.isEmpty()) {
      if (wantsGpus || ports > 0) {
        throw refused("--reservation cannot be combined with --gpus, --gpu or --ports");
      }
      request.setReservationId(reservation);
    } else if (wantsGpus) {
      request.setGpus(Requests.gpus(gpus));
    } else if (gpus.minFreeMemory() > 0 || !gpus.model().isEmpty()) {
      throw refused("--min-memory and --model require --gpus N");
    }
    if (request.hasGpus() || ports > 0) {
      request.setWait(Messages.waitTime(gpus.waitAtMost()));
    }
    if (words.isEmpty() && !surroundings.given()) {
      throw refused("nothing to run: give a script, or a command after --");
    }
    if (words.isEmpty() && (!pip.isEmpty() || requirements.isPresent())) {
      throw refused("--pip and --requirements require a script, or a command after --");
    }
    if (!outputs.isEmpty() && !detach) {
      Download.checkWritable(outputDir, "choose another folder with --output-dir");
    }
    return request;
  }

  ProgramDelivery delivery() {
    return new ProgramDelivery(program(), pip, requirements);
  }

  private Program program() {
    Program program =
        new Program(
            words,
            followDashes(spec, words),
            bundle,
            interpreter.map(Program::words).orElse(List.of()));
    program.check(COMMAND_HINT);
    return program;
  }

  /** What may be a mistake in the command line. */
  List<String> notes() {
    if (words.isEmpty()) {
      return List.of("no script or command given: running the image's own command");
    }
    if (followDashes(spec, words)) {
      return List.of();
    }
    List<String> ours =
        words.stream()
            .skip(1)
            .takeWhile(word -> !word.equals("--"))
            .map(word -> word.split("=", 2)[0])
            .filter(word -> word.startsWith("--") || word.equals("-g"))
            .filter(word -> spec.optionsMap().containsKey(word))
            .distinct()
            .toList();
    return ours.isEmpty()
        ? List.of()
        : List.of(
            "warning: "
                + String.join(", ", ours)
                + " after "
                + words.get(0)
                + " goes to the script, not to berth; options of berth come before the script");
  }

  /** Whether the last words of a command line stand after {@code --}. */
  static boolean followDashes(CommandSpec spec, List<String> words) {
    // Everything after the first word is one of them, so what stands before that tells.
    List<String> all = spec.commandLine().getParseResult().originalArgs();
    int before = all.size() - words.size() - 1;
    return before >= 0 && all.get(before).equals("--");
  }

  private ParameterException refused(String why) {
    return new ParameterException(spec.commandLine(), why);
  }

  private interface Following {
    void follow() throws IOException;
  }

  /**
   * @param client the server of the run, once that is known
   * @param following shows the run until its end; a detached one, until it is placed
   */
  private int follow(Supplier<RunClient> client, RunView view, Following following)
      throws IOException {
    if (detach) {
      following.follow();
      return ExitCode.OK;
    }
    CancelOnSignal cancel = CancelOnSignal.install(client, view);
    try {
      following.follow();
    } catch (BerthException e) {
      // A run that never started has no end that could be shown.
      if (e.reason() == Reason.CANCELLED && cancel.exitCode().isPresent()) {
        view.note(e.getMessage());
        return cancel.exitCode().getAsInt();
      }
      throw e;
    } catch (UncheckedIOException e) {
      return cannotWrite(client.get(), view, e);
    }
    RunExited exited = view.exited();
    if (RunEnd.wentWell(exited) && !outputs.isEmpty()) {
      fetchOutputs(client.get(), view);
    }
    return RunEnd.exitCode(exited, cancel.exitCode());
  }

  // `berth run ... | head` ends as a local program would: with the one who reads it.
  private static int cannotWrite(RunClient client, RunView view, UncheckedIOException failure) {
    CancelCommand.cancel(client, view.runId(), false);
    RunView.checkReaderHasGone(failure);
    return BROKEN_PIPE;
  }

  private void fetchOutputs(RunClient client, RunView view) throws IOException {
    DownloadFilesRequest request = DownloadFilesRequest.newBuilder().setRunId(view.runId()).build();
    try {
      outputLimit.download(outputDir, client, request, file -> file, view::note);
    } catch (BerthException e) {
      throw new BerthException(
          e.reason(),
          "the run succeeded, but its outputs could not be fetched: "
              + e.getMessage()
              + "; try 'berth cp "
              + view.runId()
              + ":PATH .'",
          e);
    }
  }
}
