package berth.cli;

import berth.client.ReservationClient;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.v1.SetDrainingResponse;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth server drain|undrain}. */
@Command(
    name = "server",
    synopsisSubcommandLabel = "COMMAND",
    description = {
      "What an administrator does with a server; with a registry, name it by --server.",
      ""
    })
final class ServerCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "drain or undrain?");
  }

  @Command(
      description = "Grants nothing any more and refuses who waits; what is reserved may finish.")
  int drain(@Mixin ServerOption server) {
    return setDraining(server, true);
  }

  @Command(description = "Grants reservations again.")
  int undrain(@Mixin ServerOption server) {
    return setDraining(server, false);
  }

  private static int setDraining(ServerOption server, boolean draining) {
    Address address = server.one();
    try (ReservationClient client = ReservationClient.of(address)) {
      SetDrainingResponse response = client.setDraining(draining, ServerOption.TIMEOUT);
      System.out.printf(
          "%s: %s, %d reservations held%n",
          address, draining ? "draining" : "serving", response.getReservations());
    }
    return ExitCode.OK;
  }
}
