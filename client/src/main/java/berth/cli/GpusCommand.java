package berth.cli;

import berth.client.GpuClient;
import berth.client.ManyServers;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.v1.ListGpusResponse;
import berth.v1.Server;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth gpus}. */
@Command(
    name = "gpus",
    description = {
      "Shows the GPUs of servers: temperature, utilisation, power, memory, processes and health.",
      "",
    },
    sortOptions = false)
final class GpusCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private ServerFilterOptions filter;

  @Option(names = "--watch", description = "Go on showing every new sample until Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description =
          "Print each response as a line of JSON: the ListGpusResponses, or with --watch the"
              + " WatchGpusResponses, of berth/v1/gpu.proto.")
  private boolean json;

  @Override
  public Integer call() throws InterruptedException {
    try (Servers servers = server.servers()) {
      servers.check(filter.filter());
      if (watch) {
        try (GpuWatch watching = new GpuWatch(servers, filter.filter())) {
          return json ? watching.printJson() : watching.show(Terminal.ofThisProcess());
        }
      }
      GpuTable table = new GpuTable(Terminal.ofThisProcess().colours());
      Blocks blocks = new Blocks();
      servers.ask(
          filter.filter(), GpusCommand::ask, (who, answer) -> show(who, answer, table, blocks));
    }
    return ExitCode.OK;
  }

  private void show(Server who, ListGpusResponse answer, GpuTable table, Blocks blocks) {
    if (json) {
      Terminal.line(Json.line(answer));
    } else {
      blocks.print(table.render(ManyServers.address(who), answer.getReport()));
    }
  }

  private static ListGpusResponse ask(Address address) {
    try (GpuClient client = GpuClient.of(address)) {
      return client.listGpus(ServerOption.TIMEOUT);
    }
  }
}
