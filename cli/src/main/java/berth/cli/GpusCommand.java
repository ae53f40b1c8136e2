package berth.cli;

import berth.client.call.GpuClient;
import berth.client.call.ManyServers;
import berth.rpc.Address;
import berth.rpc.ExitCode;
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
      "Show GPU load, memory, temperature and health.",
      "",
    },
    sortOptions = false,
    footer = {"", "Examples:", "  berth gpus", "  berth gpus --server gpu01 --watch"})
final class GpusCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private ServerFilterOptions filter;

  @Option(names = "--watch", description = "Refresh until Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description =
          "Print a JSON line per server (ListGpusResponse); with --watch, per sample"
              + " (WatchGpusResponse).")
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
      SeparatedOutput blocks = new SeparatedOutput();
      servers.ask(
          filter.filter(), GpusCommand::ask, (who, answer) -> show(who, answer, table, blocks));
    }
    return ExitCode.OK;
  }

  private void show(Server who, ListGpusResponse answer, GpuTable table, SeparatedOutput blocks) {
    if (json) {
      Terminal.line(JsonOutput.line(answer));
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
