package berth.cli;

import berth.client.ReservationClient;
import berth.client.RunClient;
import berth.rpc.Address;
import java.time.Duration;
import picocli.CommandLine.Option;

/** The option of every command that speaks to one server. */
final class ServerOption {
  static final int PORT = 18812;
  static final Duration TIMEOUT = Duration.ofSeconds(10);

  @Option(
      names = "--server",
      paramLabel = "HOST[:PORT]",
      defaultValue = "${BERTH_SERVER:-127.0.0.1:18812}",
      description = "Server to ask (default: the variable BERTH_SERVER, else 127.0.0.1:18812).")
  private String server;

  Address address() {
    return Address.parse(server, PORT);
  }

  ReservationClient reservations() {
    return ReservationClient.of(address());
  }

  RunClient runs() {
    return RunClient.of(address());
  }
}
