package berth.cli;

import berth.client.call.RegistryClient;
import berth.command.SettingsFile;
import berth.discovery.Discovery;
import berth.discovery.FoundRegistry;
import berth.discovery.Reach;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import picocli.CommandLine.Option;

/** The option of every command that finds servers by a registry. */
final class RegistryOption {
  private static final String KEY = "registry";
  private static final String NONE = "none";
  private static final Duration SEARCH = Duration.ofMillis(300);

  @Option(
      names = "--registry",
      paramLabel = "HOST[:PORT]",
      description =
          "Registry, or a comma-separated list of replicas; 'none' for none. Default:"
              + " $BERTH_REGISTRY, else 'registry:' in ~/.config/berth/config.yaml or"
              + " /etc/berth/berth.yaml, else discovery on the local network.")
  private String given = "";

  private final UnaryOperator<String> environment;
  private final Path systemFile;

  RegistryOption() {
    this(System::getenv, Path.of("/etc/berth/berth.yaml"));
  }

  RegistryOption(UnaryOperator<String> environment, Path systemFile) {
    this.environment = environment;
    this.systemFile = systemFile;
  }

  /** Whether the command line names one, or says that there is none. */
  boolean given() {
    return !given.isEmpty();
  }

  /** The registries that were named, if any were; an empty list if there shall be none. */
  Optional<List<Address>> named() {
    return Stream.of(Optional.of(given), variable("BERTH_REGISTRY"))
        .flatMap(Optional::stream)
        .filter(text -> !text.isBlank())
        .findFirst()
        .or(this::configured)
        .map(RegistryOption::parse);
  }

  /** The registries to ask: those that were named, else one that is found; empty if none is. */
  Optional<RegistryClient> find() {
    List<Address> registries = named().orElseGet(RegistryOption::search);
    return registries.isEmpty() ? Optional.empty() : Optional.of(RegistryClient.of(registries));
  }

  /**
   * The same for commands that are nothing without one.
   *
   * @throws BerthException if there is none
   */
  RegistryClient require() {
    return find()
        .orElseThrow(
            () ->
                new BerthException(
                    Reason.NOT_FOUND,
                    named().isPresent()
                        ? "this command requires a registry, but it is set to 'none'"
                        : "no registry found on the local network: use --registry HOST or set"
                            + " BERTH_REGISTRY"));
  }

  private Optional<String> variable(String name) {
    return Optional.ofNullable(environment.apply(name));
  }

  private Optional<String> configured() {
    Path home =
        variable("XDG_CONFIG_HOME")
            .filter(folder -> !folder.isEmpty())
            .map(Path::of)
            .orElseGet(
                () ->
                    Path.of(
                        // Java knows only the one of the list of users.
                        variable("HOME")
                            .filter(folder -> !folder.isEmpty())
                            .orElse(System.getProperty("user.home")),
                        ".config"));
    return Stream.of(home.resolve("berth/config.yaml"), systemFile)
        .filter(Files::exists)
        .map(file -> SettingsFile.read(file, new TreeSet<>(Set.of(KEY))).get(KEY))
        .filter(Objects::nonNull)
        .map(SettingsFile.Entry::value)
        .findFirst();
  }

  private static List<Address> parse(String text) {
    return text.trim().equals(NONE)
        ? List.of()
        : Stream.of(text.split(",")).map(one -> Address.parse(one, RegistryClient.PORT)).toList();
  }

  private static List<Address> search() {
    List<FoundRegistry> found;
    try {
      found = Discovery.find(Reach.LOCAL_NETWORK, SEARCH);
    } catch (BerthException e) {
      if (e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      return List.of();
    }
    if (found.isEmpty()) {
      return List.of();
    }
    FoundRegistry first = found.get(0);
    Terminal.note("found the registry " + PlainText.clean(first.name()) + " at " + first.address());
    return List.of(first.address());
  }
}
