package berth.cli;

import berth.client.call.RunClient;
import berth.rpc.Address;
import berth.rpc.ExitCode;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth runs}. */
@Command(
    name = "runs",
    sortOptions = false,
    description = {"List runs.", ""},
    footer = {"", "Examples:", "  berth runs", "  berth runs --all --mine"})
final class RunsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private OwnerOption owner;

  @Option(
      names = {"-a", "--all"},
      description = "Include all ended runs (default: recent ones only).")
  private boolean all;

  @Option(
      names = "--json",
      description = "Print a JSON line per server (ListRunsResponse), ended runs included.")
  private boolean json;

  @Override
  public Integer call() {
    SeparatedOutput blocks = new SeparatedOutput();
    try (Servers servers = server.servers()) {
      servers.ask(
          ServerFilter.getDefaultInstance(),
          this::ask,
          (who, response) -> {
            if (json) {
              Terminal.line(JsonOutput.line(wanted(response)));
            } else {
              blocks.print(new RunTable(TimeText.here()).render(wanted(response), all));
            }
          });
    }
    return ExitCode.OK;
  }

  ListRunsResponse wanted(ListRunsResponse response) {
    if (!owner.given()) {
      return response;
    }
    List<Run> runs =
        response.getRunsList().stream()
            .filter(run -> owner.wants(run.getRequest().getOwner()))
            .toList();
    return response.toBuilder().clearRuns().addAllRuns(runs).setTotalCount(runs.size()).build();
  }

  private ListRunsResponse ask(Address address) {
    try (RunClient client = RunClient.of(address)) {
      return all || json || owner.given()
          ? client.listRuns(ServerOption.TIMEOUT)
          : client.recentRuns(RunTable.LAST_ENDED, ServerOption.TIMEOUT);
    }
  }
}
