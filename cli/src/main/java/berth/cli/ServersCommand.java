package berth.cli;

import berth.client.call.RegistryClient;
import berth.rpc.ExitCode;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth servers}. */
@Command(
    name = "servers",
    sortOptions = false,
    description = {
      "List servers with their free GPUs, queues and runs.",
      "",
    },
    footer = {"", "Examples:", "  berth servers", "  berth servers --model A100 --free 2"})
final class ServersCommand implements Callable<Integer> {
  @Mixin private RegistryOption registry;
  @Mixin private ServerFilterOptions filter;

  @Option(names = "--watch", description = "Refresh until Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description =
          "Print a JSON line per server (Server); with --watch, per change (WatchServersResponse).")
  private boolean json;

  @Override
  public Integer call() {
    ServerFilter wanted = filter.filter();
    try (RegistryClient client = registry.require()) {
      if (watch && json) {
        ServerListWatch.printJson(client, wanted);
      } else if (watch) {
        ServerListWatch.show(client, wanted, ServerTable::servers);
      } else {
        List<Server> servers = Servers.of(client).list(wanted);
        if (json) {
          servers.forEach(server -> Terminal.line(JsonOutput.line(server)));
        } else {
          Terminal.print(ServerTable.servers(servers));
        }
      }
    }
    return ExitCode.OK;
  }
}
