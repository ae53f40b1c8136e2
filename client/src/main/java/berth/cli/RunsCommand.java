package berth.cli;

import berth.client.RunClient;
import berth.command.ExitCode;
import berth.v1.ListRunsResponse;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth runs}. */
@Command(
    name = "runs",
    sortOptions = false,
    description = {"Shows what runs on a server, what waits, and what ended of late.", ""},
    footer = {"", "Example: berth runs --all"})
final class RunsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-a", "--all"},
      description = "Also all that have ended, as far as the server knows them.")
  private boolean all;

  @Option(
      names = "--json",
      description = "Print the response as a line of JSON (ListRunsResponse), with all runs.")
  private boolean json;

  @Override
  public Integer call() {
    try (RunClient client = server.runs()) {
      ListRunsResponse response = client.listRuns(ServerOption.TIMEOUT);
      System.out.print(
          json ? Json.line(response) + "\n" : new RunTable(Times.here()).render(response, all));
    }
    return ExitCode.OK;
  }
}
