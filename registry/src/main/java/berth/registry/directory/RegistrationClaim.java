package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.RegisterRequest;
import berth.v1.Server;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The claim of a server to its name and its address, granted over those who had them.
 *
 * <p>The newer process wins. Which one that is, a number decides: a process that registers for the
 * first time gets the time of that, or a higher number if those it replaces have one above that,
 * and brings it along to every further registration, at whatever registry.
 *
 * @param generation its number
 * @param replaced who loses the name or the address by it
 */
record RegistrationClaim(long generation, List<Server> replaced) {
  // The clocks of registries at most, or their numbers would be refused by each other.
  private static final Duration CLOCKS_DIFFER = Duration.ofDays(1);

  /**
   * Decides about a claim.
   *
   * @param byName who has the name at present
   * @param byAddress who has the address at present
   * @param now the number of a first registration at present: milliseconds since 1970
   * @throws BerthException ALREADY_EXISTS if one of them is newer; INVALID if it has a number that
   *     no registry can have given it
   */
  static RegistrationClaim decide(
      RegisterRequest request, Optional<Server> byName, Optional<Server> byAddress, long now) {
    List<Server> rivals =
        Stream.concat(byName.stream(), byAddress.stream())
            .filter(server -> !server.getInstance().equals(request.getInstance()))
            .distinct()
            .toList();
    long newest = rivals.stream().mapToLong(Server::getGeneration).max().orElse(0);
    long known =
        byName
            .filter(server -> server.getInstance().equals(request.getInstance()))
            .map(Server::getGeneration)
            .orElse(request.getGeneration());
    long own = Math.max(known, request.getGeneration());
    // Else nobody who comes later could have a higher number that is believed.
    if (own > Math.max(Math.max(known(byName), known(byAddress)), now + CLOCKS_DIFFER.toMillis())) {
      throw new BerthException(Reason.INVALID, "unknown generation " + Long.toUnsignedString(own));
    }
    if (own == 0) {
      return new RegistrationClaim(Math.max(newest + 1, now), rivals);
    }
    if (newest >= own) {
      Server winner =
          rivals.stream().filter(rival -> rival.getGeneration() == newest).findFirst().get();
      throw new BerthException(
          Reason.ALREADY_EXISTS,
          String.format(
              "%s is known already, as a newer server: %s",
              winner.getInfo().getName().equals(request.getInfo().getName())
                  ? "the name " + request.getInfo().getName()
                  : "the address " + request.getInfo().getAddress(),
              describe(winner)));
    }
    return new RegistrationClaim(own, rivals);
  }

  private static long known(Optional<Server> server) {
    return server.map(Server::getGeneration).orElse(0L);
  }

  /**
   * The server that makes the claim, as it is known from now on.
   *
   * @param byName who has the name at present
   */
  Server server(RegisterRequest request, Optional<Server> byName) {
    Optional<Server> before =
        byName.filter(server -> server.getInstance().equals(request.getInstance()));
    boolean late = before.isPresent() && LeaseTerms.isLate(request.getSequence(), before.get());
    Server.Builder server =
        late
            ? before.get().toBuilder()
            : Server.newBuilder()
                .setInfo(request.getInfo())
                .setStatus(request.getStatus())
                .setSequence(request.getSequence());
    return server
        .setInstance(request.getInstance())
        .setGeneration(generation)
        .setRegisteredAt(
            before.map(Server::getRegisteredAt).orElseGet(() -> Messages.timestamp(Instant.now())))
        .build();
  }

  /** What happens to one that is replaced, for the log. */
  String loss(Server loser, RegisterRequest winner) {
    String now = winner.getInfo().getName() + " at " + winner.getInfo().getAddress();
    return describe(loser).equals(now)
        ? now + " has restarted: its entry is replaced"
        : describe(loser) + " is replaced by a newer server, " + now;
  }

  /** How people see a server. */
  static String describe(Server server) {
    return server.getInfo().getName() + " at " + server.getInfo().getAddress();
  }
}
