package berth.cli;

import berth.rpc.ExitCode;
import berth.v1.ClusterStatus;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth cluster status}. */
@Command(
    name = "status",
    sortOptions = false,
    description = {
      "Show a detached cluster, its tasks and their attempts.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster status mnist",
      "  berth cluster status --watch mnist",
    })
final class ClusterStatusCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(names = "--watch", description = "Refresh until the cluster ends or Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description = "Print JSON (ClusterStatus); with --watch, a line per change.")
  private boolean json;

  @Parameters(paramLabel = "NAME", description = "Cluster name, ID or unique ID prefix.")
  private String name;

  @Override
  public Integer call() throws InterruptedException {
    try (Servers servers = server.servers();
        FoundCluster found = FoundCluster.find(servers, name)) {
      if (watch && json) {
        ClusterStatusWatch.printJson(found);
      } else if (watch) {
        ClusterStatusWatch.show(found, Terminal.ofThisProcess());
      } else {
        ClusterStatus status = found.client().get(found.id(), ServerOption.TIMEOUT);
        Terminal.print(
            json
                ? JsonOutput.line(status) + "\n"
                : new ClusterStatusTable(TimeText.here()).render(status));
      }
    }
    return ExitCode.OK;
  }
}
