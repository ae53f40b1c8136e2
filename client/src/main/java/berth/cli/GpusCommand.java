package berth.cli;

import berth.client.GpuClient;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.v1.ListGpusResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import picocli.CommandLine.Command;
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
  @Option(
      names = "--server",
      paramLabel = "HOST[:PORT]",
      split = ",",
      defaultValue = "${BERTH_SERVER:-127.0.0.1:18812}",
      description =
          "Server to ask; may be repeated (default: the variable BERTH_SERVER, else"
              + " 127.0.0.1:18812).")
  private List<String> servers;

  @Option(names = "--watch", description = "Go on showing every new sample until Ctrl-C.")
  private boolean watch;

  @Option(
      names = "--json",
      description =
          "Print each response as a line of JSON: the ListGpusResponse, or with --watch the"
              + " WatchGpusResponses, of berth/v1/gpu.proto.")
  private boolean json;

  @Override
  public Integer call() throws InterruptedException {
    List<Address> addresses =
        servers.stream().map(s -> Address.parse(s, ServerOption.PORT)).toList();
    if (watch) {
      try (GpuWatch watching = new GpuWatch(addresses)) {
        return json ? watching.printJson() : watching.show(Terminal.ofThisProcess());
      }
    }
    return list(addresses);
  }

  private int list(List<Address> addresses) {
    List<CompletableFuture<ListGpusResponse>> answers = new ArrayList<>();
    for (Address address : addresses) {
      answers.add(CompletableFuture.supplyAsync(() -> ask(address)));
    }
    GpuTable table = new GpuTable(Terminal.ofThisProcess().colours());
    BerthException failure = null;
    for (int i = 0; i < addresses.size(); i++) {
      try {
        ListGpusResponse response = answers.get(i).join();
        if (json) {
          System.out.println(Json.line(response));
        } else {
          System.out.print(i == 0 ? "" : "\n");
          System.out.print(table.render(addresses.get(i), response.getReport()));
        }
      } catch (CompletionException e) {
        if (!(e.getCause() instanceof BerthException cause)) {
          throw e;
        }
        if (failure != null) {
          System.err.println("berth: " + failure.getMessage());
        }
        failure = cause;
      }
    }
    if (failure != null) {
      throw failure;
    }
    return ExitCode.OK;
  }

  private static ListGpusResponse ask(Address address) {
    try (GpuClient client = GpuClient.of(address)) {
      return client.listGpus(ServerOption.TIMEOUT);
    }
  }
}
