package berth.cli;

import berth.client.RegistryClient;
import berth.command.ExitCode;
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
      "Shows the servers that the registry knows: which of their GPUs are free, who waits, what"
          + " runs.",
      "",
    },
    footer = {"", "Example: berth servers --model A100 --free 2"})
final class ServersCommand implements Callable<Integer> {
  @Mixin private RegistryOption registry;
  @Mixin private ServerFilterOptions filter;

  @Option(names = "--watch", description = "Go on showing every change until Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description =
          "Print each server as a line of JSON (Server of berth/v1/registry.proto); with --watch"
              + " each change (WatchServersResponse).")
  private boolean json;

  @Override
  public Integer call() {
    ServerFilter wanted = filter.filter();
    try (RegistryClient client = registry.require()) {
      if (watch && json) {
        ServerWatch.printJson(client, wanted);
      } else if (watch) {
        ServerWatch.show(client, wanted, ServerTable::servers);
      } else {
        List<Server> servers = Servers.of(client).list(wanted);
        if (json) {
          servers.forEach(server -> Terminal.line(Json.line(server)));
        } else {
          Terminal.print(ServerTable.servers(servers));
        }
      }
    }
    return ExitCode.OK;
  }
}
