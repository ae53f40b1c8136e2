package berth.cli;

import berth.client.FollowedRun;
import berth.command.ExitCode;
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
    description = {"Prints what a run has printed so far, also after its end.", ""},
    footer = {"", "Example: berth logs -f run-6b1f"})
final class LogsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--follow"},
      description = "Go on until the run ends, or until Ctrl-C, which leaves it alone.")
  private boolean follow;

  @Option(
      names = "--from",
      paramLabel = "OFFSET",
      defaultValue = "0",
      description = "Begin at this byte of its output, both streams together.")
  private long from;

  @Option(names = "--json", description = "Print each event as a line of JSON (RunEvent).")
  private boolean json;

  @Parameters(paramLabel = "RUN", description = "Which, by its id or the beginning of that.")
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
