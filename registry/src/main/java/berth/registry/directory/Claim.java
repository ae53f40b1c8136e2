package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.RegisterRequest;
import berth.v1.Server;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The claim of a server to its name and its address, granted over those who had them.
 *
 * <p>The newer process wins. Which one that is, no clock decides but a number: a process that
 * registers for the first time gets a higher one than those it replaces, and brings it along to
 * every further registration, at whatever registry.
 *
 * @param generation its number
 * @param replaced who loses the name or the address by it
 */
record Claim(long generation, List<Server> replaced) {
  /**
   * Decides about a claim.
   *
   * @param byName who has the name at present
   * @param byAddress who has the address at present
   * @throws BerthException ALREADY_EXISTS if one of them is newer
   */
  static Claim decide(
      RegisterRequest request, Optional<Server> byName, Optional<Server> byAddress) {
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
    if (own == 0) {
      return new Claim(newest + 1, rivals);
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
    return new Claim(own, rivals);
  }

  /** What happens to one that is replaced, for the log. */
  String loss(Server loser, RegisterRequest winner) {
    String now = winner.getInfo().getName() + " at " + winner.getInfo().getAddress();
    return describe(loser).equals(now)
        ? now + " has restarted: what was known of it is replaced"
        : describe(loser) + " is replaced by a newer server, " + now;
  }

  /** How people see a server. */
  static String describe(Server server) {
    return server.getInfo().getName() + " at " + server.getInfo().getAddress();
  }
}
