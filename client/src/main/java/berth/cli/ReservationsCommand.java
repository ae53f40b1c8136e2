package berth.cli;

import berth.client.ReservationClient;
import berth.command.ExitCode;
import berth.v1.ListReservationsResponse;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth reservations}. */
@Command(
    name = "reservations",
    sortOptions = false,
    description = {
      "Shows who holds which GPUs of a server, until when, who waits, and which GPUs others use or"
          + " have locked.",
      "",
    })
final class ReservationsCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description = "Print the response as a line of JSON (ListReservationsResponse).")
  private boolean json;

  @Override
  public Integer call() {
    try (ReservationClient client = server.reservations()) {
      ListReservationsResponse response = client.listReservations(ServerOption.TIMEOUT);
      System.out.print(
          json ? Json.line(response) + "\n" : new ReservationTable(Times.here()).render(response));
    }
    return ExitCode.OK;
  }
}
