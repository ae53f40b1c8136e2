package berth.cli;

import berth.client.call.ReservationClient;
import berth.rpc.Address;
import berth.rpc.ExitCode;
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
      "Without --mine and --user, also shows GPUs that are used or locked by others.",
      "",
    },
    footer = {"", "Examples:", "  berth reservations", "  berth reservations --mine"})
final class ReservationsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private OwnerOption owner;

  @Option(
      names = "--json",
      description = "Print a JSON line per server (ListReservationsResponse).")
  private boolean json;

  @Override
  public Integer call() {
    SeparatedOutput blocks = new SeparatedOutput();
    try (Servers servers = server.servers()) {
      servers.ask(
          ServerFilter.getDefaultInstance(),
          ReservationsCommand::ask,
          (who, response) -> {
            if (json) {
              Terminal.line(JsonOutput.line(wanted(response)));
            } else {
              blocks.print(new ReservationTable(TimeText.here()).render(wanted(response)));
            }
          });
    }
    return ExitCode.OK;
  }

  // What others have locked or use has no owner that Berth knows.
  ListReservationsResponse wanted(ListReservationsResponse response) {
    if (!owner.given()) {
      return response;
    }
    return response.toBuilder()
        .clearReservations()
        .addAllReservations(
            response.getReservationsList().stream()
                .filter(reservation -> owner.wants(reservation.getOwner()))
                .toList())
        .clearWaiting()
        .addAllWaiting(
            response.getWaitingList().stream()
                .filter(waiting -> owner.wants(waiting.getOwner()))
                .toList())
        .clearLockedByOthers()
        .clearUnreservedUse()
        .build();
  }

  private static ListReservationsResponse ask(Address address) {
    try (ReservationClient client = ReservationClient.of(address)) {
      return client.listReservations(ServerOption.TIMEOUT);
    }
  }
}
