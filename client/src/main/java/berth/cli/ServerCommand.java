package berth.cli;

import berth.client.GpuClient;
import berth.client.ReservationClient;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.v1.Gpu;
import berth.v1.SetDrainingResponse;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth server drain|undrain|heal}. */
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
    throw new ParameterException(spec.commandLine(), "missing command; see 'berth server --help'");
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

  @Command(
      description = {
        "Return a GPU to service after a reset or inspection.",
        "",
        "'berth gpus' shows what a GPU needs.",
        ""
      })
  int heal(
      @Mixin ServerOption server,
      @Parameters(paramLabel = "GPU", description = "Index or UUID of the GPU.") String gpu,
      @Option(
              names = "--force",
              description =
                  "Override the driver's recovery action until it changes, a new error occurs, or"
                      + " the machine reboots.")
          boolean force) {
    Address address = server.one();
    try (GpuClient client = GpuClient.of(address)) {
      Gpu healed = client.healGpu(gpu, force, ServerOption.TIMEOUT);
      Terminal.line(
          address + ": GPU " + healed.getIndex() + " (" + healed.getUuid() + ") is in service");
    }
    return ExitCode.OK;
  }

  private static int setDraining(ServerOption server, boolean draining) {
    Address address = server.one();
    try (ReservationClient client = ReservationClient.of(address)) {
      SetDrainingResponse response = client.setDraining(draining, ServerOption.TIMEOUT);
      Terminal.line(
          String.format(
              "%s: %s, %d reservations held",
              address, draining ? "draining" : "serving", response.getReservations()));
    }
    return ExitCode.OK;
  }
}
