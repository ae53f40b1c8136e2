package berth.cli;

import berth.client.call.FollowedRun;
import berth.rpc.ExitCode;
import berth.v1.AttachRunRequest;
import java.io.UncheckedIOException;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth logs}. */
@Command(
    name = "logs",
    sortOptions = false,
    description = {"Print the output of a run.", ""},
    footer = {"", "Examples:", "  berth logs run-6b1f", "  berth logs -f run-6b1f"})
final class LogsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--follow"},
      description = "Follow the output until the run ends; Ctrl-C detaches.")
  private boolean follow;

  @Option(
      names = "--from",
      paramLabel = "OFFSET",
      defaultValue = "0",
      description = "Start at this byte of the combined output.")
  private long from;

  @Option(names = "--json", description = "Print events as JSON lines (RunEvent).")
  private boolean json;

  @Parameters(paramLabel = "RUN", description = "Run ID, unique prefix, or name.")
  private String run;

  @Override
  public Integer call() {
    RunView view = RunView.ofThisProcess(json ? RunView.Detail.JSON : RunView.Detail.QUIET);
    try (Servers servers = server.servers();
        FoundRun found = FoundRun.find(servers, run)) {
      new FollowedRun(found.client(), view)
          .attach(
              AttachRunRequest.newBuilder()
                  .setRunId(found.id())
                  .setFromOffset(from)
                  .setNoFollow(!follow)
                  .build());
    } catch (UncheckedIOException e) {
      RunView.checkReaderHasGone(e);
    }
    return ExitCode.OK;
  }
}
