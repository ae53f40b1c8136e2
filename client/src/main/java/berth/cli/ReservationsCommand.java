package berth.cli;

import berth.client.ReservationClient;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.v1.ListReservationsResponse;
import berth.v1.ServerFilter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth reservations}. */
@Command(
    name = "reservations",
    sortOptions = false,
    description = {
      "List reservations and waiting requests.",
      "",
      "Also shows GPUs that are used or locked by others.",
      "",
    },
    footer = {"", "Examples:", "  berth reservations", "  berth reservations --server gpu01"})
final class ReservationsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description = "Print a JSON line per server (ListReservationsResponse).")
  private boolean json;

  @Override
  public Integer call() {
    Blocks blocks = new Blocks();
    try (Servers servers = server.servers()) {
      servers.ask(
          ServerFilter.getDefaultInstance(),
          ReservationsCommand::ask,
          (who, response) -> {
            if (json) {
              Terminal.line(Json.line(response));
            } else {
              blocks.print(new ReservationTable(Times.here()).render(response));
            }
          });
    }
    return ExitCode.OK;
  }

  private static ListReservationsResponse ask(Address address) {
    try (ReservationClient client = ReservationClient.of(address)) {
      return client.listReservations(ServerOption.TIMEOUT);
    }
  }
}
