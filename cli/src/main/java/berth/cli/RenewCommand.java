package berth.cli;

import berth.client.call.ReservationClient;
import berth.command.DurationConverter;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.v1.RenewRequest;
import berth.v1.RenewResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth renew}. */
@Command(
    name = "renew",
    sortOptions = false,
    description = {"Change when a reservation ends.", ""},
    footer = {"", "Examples:", "  berth renew r-6b1fd2c9aa --for 2h"})
final class RenewCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Parameters(paramLabel = "RESERVATION", description = "Reservation ID.")
  private String reservation;

  @Option(
      names = "--for",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "New duration from now (default: the previous one).")
  private Optional<Duration> time = Optional.empty();

  @Option(names = "--json", description = "Print JSON (RenewResponse).")
  private boolean json;

  @Override
  public Integer call() {
    RenewRequest.Builder request = RenewRequest.newBuilder().setReservationId(reservation);
    time.ifPresent(lease -> request.setLease(Messages.duration(lease)));
    try (Servers servers = server.servers();
        ReservationClient client =
            ReservationClient.of(FoundReservation.server(servers, reservation))) {
      RenewResponse response = client.renew(request.build(), ServerOption.TIMEOUT);
      Terminal.line(
          json ? JsonOutput.line(response) : ReservationTable.line(response.getReservation()));
    }
    return ExitCode.OK;
  }
}
