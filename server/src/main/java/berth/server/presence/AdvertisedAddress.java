package berth.server.presence;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.util.Optional;

/**
 * Where others find this server: what the administrator says, else where it listens, and if that is
 * everywhere, the address from which this machine reaches the registry.
 *
 * @param explicit what the administrator says; a port of 0 stands for the one it listens on
 * @param listening where it really listens
 */
record AdvertisedAddress(Optional<Address> explicit, Address listening) {
  // Of a network for examples: nobody is there, and nothing is sent to find the way to it.
  private static final String ELSEWHERE = "192.0.2.1";

  /**
   * @throws BerthException INVALID if somebody at the registry would not find this server there
   */
  Address towards(Address registry) {
    Address found = explicit.map(this::withPort).orElseGet(() -> find(registry));
    if (found.isLoopback() && !registry.isLoopback()) {
      throw new BerthException(
          Reason.INVALID,
          "the registry is at "
              + registry
              + ", and nobody there finds this server at "
              + found
              + ": let it listen beyond loopback (--listen), or say --advertise HOST[:PORT]");
    }
    return found;
  }

  private Address withPort(Address address) {
    return address.port() == 0 ? new Address(address.host(), listening.port()) : address;
  }

  private Address find(Address registry) {
    InetAddress listensOn = listening.resolve();
    if (!listensOn.isAnyLocalAddress()) {
      return listening;
    }
    InetAddress local = localAddressTowards(registry.resolve());
    if (local.isLoopbackAddress()) {
      // The registry is on this machine, those who ask it may not be.
      local = localAddressTowards(new Address(ELSEWHERE, 1).resolve());
    }
    String host = local.isAnyLocalAddress() ? "127.0.0.1" : local.getHostAddress();
    return new Address(host, listening.port());
  }

  // The kernel decides that when a datagram socket is connected, which sends nothing.
  private static InetAddress localAddressTowards(InetAddress target) {
    try (DatagramSocket socket = new DatagramSocket()) {
      socket.connect(new InetSocketAddress(target, 9));
      return socket.getLocalAddress();
    } catch (SocketException | java.io.UncheckedIOException e) {
      return InetAddress.getLoopbackAddress();
    }
  }
}
