package berth.cli;

import berth.client.RunClient;
import berth.client.ThisUser;
import berth.command.ExitCode;
import berth.v1.CancelRunRequest;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth cancel}. */
@Command(
    name = "cancel",
    sortOptions = false,
    description = {
      "Ends runs: takes them out of the queue, or ends their programs with SIGTERM and, after their"
          + " grace, SIGKILL.",
      "",
    },
    footer = {"", "Example: berth cancel run-6b1f run-77"})
final class CancelCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--force"},
      description = "Kill the programs at once.")
  private boolean force;

  @Parameters(
      arity = "1..*",
      paramLabel = "RUN",
      description = "Which, by their ids or the beginnings of those.")
  private List<String> runs;

  @Override
  public Integer call() {
    try (Servers servers = server.servers()) {
      FoundRun.forEach(servers, runs, run -> cancel(run.client(), run.id(), force));
    }
    return ExitCode.OK;
  }

  /** Cancels one run in the name of whoever runs this command. */
  static void cancel(RunClient client, String runId, boolean force) {
    client.cancelRun(
        CancelRunRequest.newBuilder()
            .setRunId(runId)
            .setBy(ThisUser.owner())
            .setForce(force)
            .build(),
        ServerOption.TIMEOUT);
  }
}
