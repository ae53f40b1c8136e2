package berth.cli;

import berth.client.call.FollowedRun;
import berth.rpc.ExitCode;
import berth.v1.AttachRunRequest;
import berth.v1.Run;
import java.io.UncheckedIOException;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth attach}. */
@Command(
    name = "attach",
    sortOptions = false,
    description = {
      "Follow the output of a run until it ends.",
      "",
      "Ctrl-C detaches; 'berth cancel' stops the run.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth attach run-6b1f",
      "Exit codes: the program's own; 124 on a time limit, 125 if Berth failed.",
    })
final class AttachCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--hold",
      description = "Keep an attached run alive if its own client disconnects.")
  private boolean hold;

  @Option(names = "--json", description = "Print events as JSON lines (RunEvent).")
  private boolean json;

  @Parameters(paramLabel = "RUN", description = "Run ID, unique prefix, or name.")
  private String run;

  @Override
  public Integer call() {
    RunView view = RunView.ofThisProcess(json ? RunView.Detail.JSON : RunView.Detail.ALL);
    try (Servers servers = server.servers();
        FoundRun found = FoundRun.find(servers, run)) {
      Signals.handle(signal -> leave(view, found.run()));
      new FollowedRun(found.client(), view)
          .attach(
              AttachRunRequest.newBuilder()
                  .setRunId(found.id())
                  .setFromOffset(found.run().getOutputBytes())
                  .setHolding(hold)
                  .build());
    } catch (UncheckedIOException e) {
      RunView.checkReaderHasGone(e);
      return ExitCode.OK;
    }
    return RunEnd.exitCode(view.exited(), OptionalInt.empty());
  }

  private void leave(RunView view, Run left) {
    view.note(
        hold && !left.getRequest().getDetached()
            ? "detached from " + left.getRunId() + "; it continues while another client holds it"
            : "detached from " + left.getRunId() + "; it continues");
    System.exit(ExitCode.OK);
  }
}
