package berth.cli;

import berth.client.call.ManyServers;
import berth.client.call.ManyServers.Answer;
import berth.client.call.ReservationClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ServerFilter;
import java.util.List;

/** Finds the server that holds a reservation. */
final class FoundReservation {
  private FoundReservation() {}

  /**
   * Where the reservation is. A server that was given is not asked: it will say so itself if it has
   * none of that name.
   *
   * @throws BerthException if no server has it
   */
  static Address server(Servers servers, String id) {
    if (servers.addresses().size() == 1) {
      return servers.one();
    }
    List<Answer<Boolean>> answers =
        ManyServers.ask(
            servers.list(ServerFilter.getDefaultInstance()), address -> holds(address, id));
    for (Answer<Boolean> answer : answers) {
      if (answer.value().orElse(false)) {
        return ManyServers.address(answer.server());
      }
    }
    throw new BerthException(
        Reason.NOT_FOUND,
        "there is no reservation '"
            + id
            + "'; 'berth reservations' lists them"
            + ManyServers.silent(answers));
  }

  private static boolean holds(Address address, String id) {
    try (ReservationClient client = ReservationClient.of(address)) {
      return client.listReservations(ServerOption.TIMEOUT).getReservationsList().stream()
          .anyMatch(reservation -> reservation.getReservationId().equals(id));
    }
  }
}
