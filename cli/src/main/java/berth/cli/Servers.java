package berth.cli;

import berth.client.call.ManyServers;
import berth.client.call.ManyServers.Answer;
import berth.client.call.RegistryClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.FindGpusRequest;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.ServerInfo;
import java.util.List;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The servers that a command speaks to: given ones, or all that a registry knows. */
final class Servers implements AutoCloseable {
  private final List<Address> given;
  private final Optional<RegistryClient> registry;

  private Servers(List<Address> given, Optional<RegistryClient> registry) {
    this.given = given;
    this.registry = registry;
  }

  static Servers given(List<Address> addresses) {
    return new Servers(addresses, Optional.empty());
  }

  static Servers of(RegistryClient registry) {
    return new Servers(List.of(), Optional.of(registry));
  }

  /** The registry, if that is where they come from. */
  Optional<RegistryClient> registry() {
    return registry;
  }

  /** Where the given ones are; none if a registry knows them. */
  List<Address> addresses() {
    return given;
  }

  /**
   * The only one that was given.
   *
   * @throws BerthException if it is not one
   */
  Address one() {
    if (given.size() != 1) {
      throw new BerthException(
          Reason.INVALID, "no server given: use --server HOST[:PORT] or --server NAME");
    }
    return given.get(0);
  }

  /**
   * Checks that there is something to choose from.
   *
   * @throws BerthException if servers were given and {@code filter} leaves some of them out
   */
  void check(ServerFilter filter) {
    if (registry.isEmpty() && !filter.equals(ServerFilter.getDefaultInstance())) {
      throw new BerthException(
          Reason.INVALID,
          "--label, --service, --model, --min-memory and --free require a registry");
    }
  }

  /**
   * @throws BerthException if there are none, or there is nothing to choose from
   */
  List<Server> list(ServerFilter filter) {
    check(filter);
    if (registry.isEmpty()) {
      return given.stream().map(Servers::unregistered).toList();
    }
    List<Server> servers = registry.get().listServers(filter);
    if (servers.isEmpty()) {
      throw new BerthException(
          Reason.NOT_FOUND,
          filter.equals(ServerFilter.getDefaultInstance())
              ? "no servers in registry " + registry.get()
              : whyNone(filter));
    }
    return servers;
  }

  private String whyNone(ServerFilter filter) {
    String problem =
        registry
            .get()
            .findGpus(FindGpusRequest.newBuilder().setFilter(filter).build())
            .getProblem();
    // Of a filter, only the number of free GPUs means nothing to that question.
    return problem.isEmpty()
        ? "no server has " + filter.getMinFreeGpus() + " such GPUs free; see 'berth gpus'"
        : problem;
  }

  /**
   * Asks all of them, shows what they answer, and says on standard error who did not.
   *
   * @throws BerthException afterwards, if nobody answered, or one that was given did not
   */
  <T> void ask(ServerFilter filter, Function<Address, T> question, BiConsumer<Server, T> show) {
    int answered = 0;
    Answer<T> silent = null;
    for (Answer<T> answer : ManyServers.ask(list(filter), question)) {
      if (answer.value().isPresent()) {
        answered++;
        show.accept(answer.server(), answer.value().get());
      } else {
        if (silent != null) {
          Terminal.note(why(silent));
        }
        silent = answer;
      }
    }
    if (silent != null && (answered == 0 || registry.isEmpty())) {
      throw new BerthException(silent.failure().get().reason(), why(silent));
    }
    if (silent != null) {
      Terminal.note(why(silent));
    }
  }

  private static String why(Answer<?> silent) {
    String message = PlainText.clean(silent.failure().get().getMessage());
    String name = name(silent.server());
    return name.isEmpty() ? message : PlainText.clean(name) + ": " + message;
  }

  static String name(Server server) {
    return server.getInfo().getName();
  }

  // Nobody has told its name.
  private static Server unregistered(Address address) {
    return Server.newBuilder()
        .setInfo(ServerInfo.newBuilder().setAddress(address.toString()))
        .build();
  }

  @Override
  public void close() {
    registry.ifPresent(RegistryClient::close);
  }
}
