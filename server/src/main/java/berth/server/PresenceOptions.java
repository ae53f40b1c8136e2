package berth.server;

import berth.discovery.Discovery;
import berth.discovery.FoundRegistry;
import berth.discovery.Reach;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options of {@code berthd} for its registries, and what they list of it. */
final class PresenceOptions {
  private static final int REGISTRY_PORT = 18811;
  private static final int LONGEST_LABEL = 300;
  private static final String NO_REGISTRY = "none";
  private static final Duration DISCOVERY_TIMEOUT = Duration.ofSeconds(1);

  @Option(
      names = "--registry",
      paramLabel = "HOST[:PORT]",
      split = ",",
      defaultValue = "${BERTH_REGISTRY:-}",
      description =
          "Registry to register with, or a comma-separated list of replicas; 'none' for none"
              + " (default: $BERTH_REGISTRY, else discovery on the local network, or on this"
              + " machine only if this server listens on loopback).")
  private List<String> registry;

  @Option(
      names = "--advertise",
      paramLabel = "HOST[:PORT]",
      description =
          "Address advertised to clients (default: the listen address, or the one used to reach the"
              + " registry).")
  private Optional<String> advertise = Optional.empty();

  @Option(
      names = "--label",
      paramLabel = "KEY=VALUE",
      split = ",",
      description = "Label of this server, for example room=b12; repeatable.")
  private Map<String, String> labels = Map.of();

  /**
   * @throws BerthException INVALID
   */
  void check() {
    labels.forEach((key, value) -> PlainText.check("--label", key + "=" + value, LONGEST_LABEL));
  }

  Map<String, String> labels() {
    return labels;
  }

  Optional<Address> advertised() {
    return advertise.map(text -> Address.parse(text, 0));
  }

  /** Whether the server is to register nowhere. */
  boolean isNone() {
    return registry.contains(NO_REGISTRY);
  }

  /** Those that were given. */
  List<Address> registries() {
    return registry.stream()
        .filter(text -> !text.isBlank() && !text.equals(NO_REGISTRY))
        .map(text -> Address.parse(text, REGISTRY_PORT))
        .toList();
  }

  /** Those that were given, or else those that answer; asks the network then. */
  List<Address> find(Address listensOn) {
    if (isNone()) {
      return List.of();
    }
    List<Address> given = registries();
    if (!given.isEmpty()) {
      return given;
    }
    // No other machine could call a server that listens on loopback.
    Reach reach = listensOn.isLoopback() ? Reach.THIS_MACHINE : Reach.LOCAL_NETWORK;
    return Discovery.find(reach, DISCOVERY_TIMEOUT).stream().map(FoundRegistry::address).toList();
  }
}
