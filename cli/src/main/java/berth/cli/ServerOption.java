package berth.cli;

import berth.client.call.ManyServers;
import berth.client.call.RegistryClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options that say which servers a command speaks to. */
final class ServerOption {
  static final int PORT = 18812;
  static final Duration TIMEOUT = Duration.ofSeconds(10);

  private static final int CONNECT_MILLIS = 1000;
  private static final Address LOCAL = new Address("127.0.0.1", PORT);
  private static final Pattern MAY_BE_A_NAME = Pattern.compile("(?=.*[A-Za-z])[\\w.-]+");

  @Option(
      names = "--server",
      paramLabel = "HOST[:PORT]",
      split = ",",
      description =
          "Server address, or name in the registry (default: $BERTH_SERVER, else all servers of the"
              + " registry, else 127.0.0.1:18812).")
  private List<String> servers = List.of();

  @Mixin private RegistryOption registry = new RegistryOption();

  private final Address local;

  ServerOption() {
    this(LOCAL);
  }

  /**
   * @param local the server that is asked if nothing leads to any other
   */
  ServerOption(Address local) {
    this.local = local;
  }

  /** Those that were named, else those of the registry, else the one of this machine. */
  Servers servers() {
    List<Address> given = given();
    if (!given.isEmpty()) {
      return Servers.given(given);
    }
    return registry.find().map(Servers::of).orElseGet(this::ofThisMachine);
  }

  // Nothing was said that leads there, so a bare "connection refused" would explain nothing.
  private Servers ofThisMachine() {
    if (!listens(local)) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          (registry.named().isPresent()
                  ? "the registry is set to 'none'"
                  : "no registry found on the local network")
              + ", and no berthd runs on this machine ("
              + local
              + "): use --registry HOST or --server HOST, or set BERTH_REGISTRY");
    }
    return Servers.given(List.of(local));
  }

  private static boolean listens(Address address) {
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(address.host(), address.port()), CONNECT_MILLIS);
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  /**
   * The one server to speak to.
   *
   * @throws BerthException if more than one may be meant
   */
  Address one() {
    try (Servers all = servers()) {
      return all.one();
    }
  }

  /**
   * The one server to speak to, by an argument in place of {@code --server} if there is one.
   *
   * @throws BerthException if more than one may be meant
   */
  Address one(Optional<String> argument) {
    if (argument.isEmpty()) {
      return one();
    }
    if (!servers.isEmpty()) {
      throw new BerthException(
          Reason.INVALID, "server given twice: " + argument.get() + " and --server");
    }
    return address(argument.get());
  }

  // An option wins over a variable, whichever of the two it is.
  private List<Address> given() {
    String variable = System.getenv("BERTH_SERVER");
    boolean byVariable = servers.isEmpty() && !registry.given() && variable != null;
    List<String> words = byVariable && !variable.isBlank() ? List.of(variable.split(",")) : servers;
    return words.stream().map(this::address).toList();
  }

  private Address address(String text) {
    List<Address> registries = registry.named().orElse(List.of());
    if (registries.isEmpty() || !MAY_BE_A_NAME.matcher(text).matches()) {
      return Address.parse(text, PORT);
    }
    try (RegistryClient client = RegistryClient.of(registries)) {
      return registered(client, text);
    } catch (BerthException e) {
      if (e.reason() == Reason.NOT_FOUND) {
        throw e;
      }
      Terminal.note("taking '" + text + "' for a host: " + e.getMessage());
      return Address.parse(text, PORT);
    }
  }

  /** A server by its name in a registry, else a host. */
  private static Address registered(RegistryClient client, String name) {
    ServerFilter named = ServerFilter.newBuilder().addNames(name).build();
    Optional<Server> server = client.listServers(named).stream().findFirst();
    if (server.isPresent()) {
      return ManyServers.address(server.get());
    }
    Address host = Address.parse(name, PORT);
    try {
      host.resolve();
      return host;
    } catch (BerthException e) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "no server '"
              + name
              + "' in registry "
              + client
              + ", and no host of that name; 'berth servers' lists the servers",
          e);
    }
  }
}
