package berth.cli;

import berth.client.call.ReservationClient;
import berth.rpc.ExitCode;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/** {@code berth release}. */
@Command(
    name = "release",
    sortOptions = false,
    description = {"Release reservations.", ""},
    footer = {"", "Examples:", "  berth release r-6b1fd2c9aa"})
final class ReleaseCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Parameters(arity = "1..*", paramLabel = "RESERVATION", description = "Reservation ID.")
  private List<String> reservations;

  @Override
  public Integer call() {
    try (Servers servers = server.servers()) {
      for (String reservation : reservations) {
        try (ReservationClient client =
            ReservationClient.of(FoundReservation.server(servers, reservation))) {
          client.release(reservation, ServerOption.TIMEOUT);
        }
      }
    }
    return ExitCode.OK;
  }
}
