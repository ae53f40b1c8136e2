package berth.command;

import berth.rpc.Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options that every daemon has. */
public final class DaemonOptions {
  private final int defaultPort;
  private final int defaultMaxConnections;

  @Option(
      names = ConfigFile.OPTION,
      paramLabel = "FILE",
      description = "YAML file with options; the command line takes precedence.")
  private Path config;

  @Option(
      names = "--listen",
      paramLabel = "HOST:PORT",
      description =
          "Address to listen on; port 0: any free port (default: loopback, port 18812 for berthd,"
              + " 18811 for berth-registry).")
  private Optional<String> listen = Optional.empty();

  @Option(
      names = "--insecure",
      description = "Allow listening beyond loopback, without encryption or authentication.")
  private boolean insecure;

  @Option(
      names = CommandRunner.STACK_TRACE,
      description = "Print a stack trace when a command fails.")
  private boolean stackTrace;

  @Option(
      names = "--max-connections",
      paramLabel = "N",
      description =
          "Maximum number of open connections (default: 4000 for berthd, 40000 for"
              + " berth-registry).")
  private Optional<Integer> maxConnections = Optional.empty();

  @Option(
      names = "--max-connections-per-client",
      paramLabel = "N",
      defaultValue = "1000",
      description =
          "Maximum number of open connections per client, an IPv4 address or IPv6 /64 network"
              + " (default: ${DEFAULT-VALUE}).")
  private int maxConnectionsPerClient;

  public DaemonOptions(int defaultPort, int defaultMaxConnections) {
    this.defaultPort = defaultPort;
    this.defaultMaxConnections = defaultMaxConnections;
  }

  public int maxConnections() {
    return maxConnections.orElse(defaultMaxConnections);
  }

  public int maxConnectionsPerClient() {
    return maxConnectionsPerClient;
  }

  public Address address() {
    return Address.parse(listen.orElse("127.0.0.1"), defaultPort);
  }

  /** Whether anyone may call who reaches the address. */
  public boolean insecure() {
    return insecure;
  }

  /** The name that a daemon has if it is given none: that of the machine. */
  public static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
