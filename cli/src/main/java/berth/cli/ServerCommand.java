package berth.cli;

import berth.client.call.GpuClient;
import berth.client.call.ReservationClient;
import berth.rpc.Address;
import berth.rpc.ExitCode;
import berth.v1.Gpu;
import berth.v1.SetDrainingResponse;
import java.util.Optional;
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
    description = {"Manage a server: drain, undrain, heal.", ""},
    footer = {"", "Examples:", "  berth server drain gpu02"})
final class ServerCommand implements Runnable {
  private static final String NAMED = "Server name or address; the same as --server.";

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "missing command; see 'berth server --help'");
  }

  @Command(
      description = {"Stop granting reservations; existing ones may finish.", ""},
      footer = {"", "Examples:", "  berth server drain gpu02"})
  int drain(
      @Mixin ServerOption server,
      @Parameters(arity = "0..1", paramLabel = "SERVER", description = NAMED) String name) {
    return setDraining(server.one(Optional.ofNullable(name)), true);
  }

  @Command(
      description = {"Resume granting reservations.", ""},
      footer = {"", "Examples:", "  berth server undrain gpu02"})
  int undrain(
      @Mixin ServerOption server,
      @Parameters(arity = "0..1", paramLabel = "SERVER", description = NAMED) String name) {
    return setDraining(server.one(Optional.ofNullable(name)), false);
  }

  @Command(
      description = {
        "Return a GPU to service after a reset or inspection.",
        "",
        "'berth gpus' shows what a GPU needs.",
        ""
      },
      footer = {"", "Examples:", "  berth server heal --server gpu02 3"})
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

  private static int setDraining(Address address, boolean draining) {
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
