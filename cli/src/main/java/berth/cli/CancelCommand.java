package berth.cli;

import berth.client.call.RunClient;
import berth.client.call.ThisUser;
import berth.rpc.ExitCode;
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
      "Cancel queued or running runs.",
      "",
      "Programs get SIGTERM, and SIGKILL after their grace period.",
      "",
    },
    footer = {"", "Examples:", "  berth cancel run-6b1f", "  berth cancel --force run-6b1f run-77"})
final class CancelCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--force"},
      description = "Send SIGKILL immediately.")
  private boolean force;

  @Parameters(
      arity = "1..*",
      paramLabel = "RUN",
      description = "Run IDs, unique prefixes, or names of your own runs.")
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
