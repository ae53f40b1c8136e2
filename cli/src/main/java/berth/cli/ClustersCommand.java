package berth.cli;

import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.v1.ClusterStatus;
import berth.v1.ServerFilter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth clusters}. */
@Command(
    name = "clusters",
    sortOptions = false,
    description = {
      "List detached clusters.",
      "",
    },
    footer = {"", "Examples:", "  berth clusters", "  berth clusters --all --mine"})
final class ClustersCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private OwnerOption owner;

  @Option(
      names = {"-a", "--all"},
      description = "Include all ended clusters (default: recent ones only).")
  private boolean all;

  @Option(
      names = "--json",
      description = "Print a JSON line per cluster (ClusterStatus), ended ones included.")
  private boolean json;

  @Override
  public Integer call() {
    List<ClusterStatus> clusters = new ArrayList<>();
    try (Servers servers = server.servers()) {
      servers.ask(
          ServerFilter.getDefaultInstance(),
          address -> FoundCluster.list(servers, address),
          (who, response) ->
              response.getClustersList().stream()
                  .filter(cluster -> owner.wants(cluster.getOwner()))
                  .forEach(clusters::add));
    }
    clusters.sort(Comparator.comparing(cluster -> Messages.instant(cluster.getSubmittedAt())));
    if (json) {
      clusters.forEach(cluster -> Terminal.line(JsonOutput.line(cluster)));
    } else {
      Terminal.print(new ClustersTable(TimeText.here()).render(clusters, all));
    }
    return ExitCode.OK;
  }
}
