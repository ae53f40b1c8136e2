package berth.server.presence;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.Optional;
import java.util.stream.Stream;

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
    if (found.leadsNowhereElse() && !registry.isLoopback()) {
      throw new BerthException(
          Reason.INVALID,
          "clients of the registry at "
              + registry
              + " cannot reach this server at "
              + found
              + ": listen beyond loopback (--listen), or set --advertise HOST[:PORT]");
    }
    return found;
  }

  private Address withPort(Address address) {
    return address.port() == 0 ? new Address(address.host(), listening.port()) : address;
  }

  private Address find(Address registry) {
    if (!listening.resolve().isAnyLocalAddress()) {
      return listening;
    }
    // If the registry is on this machine, those who ask it may be elsewhere all the same.
    InetAddress local =
        Stream.of(registry.resolve(), new Address(ELSEWHERE, 1).resolve())
            .map(AdvertisedAddress::localAddressTowards)
            .filter(address -> !address.isLoopbackAddress() && !address.isAnyLocalAddress())
            .findFirst()
            .or(AdvertisedAddress::addressOfSomeNetwork)
            .orElseGet(InetAddress::getLoopbackAddress);
    return new Address(local.getHostAddress(), listening.port());
  }

  private static Optional<InetAddress> addressOfSomeNetwork() {
    try {
      return NetworkInterface.networkInterfaces()
          .flatMap(NetworkInterface::inetAddresses)
          .filter(address -> address instanceof Inet4Address && !address.isLoopbackAddress())
          .findFirst();
    } catch (SocketException e) {
      return Optional.empty();
    }
  }

  // The kernel decides that when a datagram socket is connected, which sends nothing.
  private static InetAddress localAddressTowards(InetAddress target) {
    try (DatagramSocket socket = new DatagramSocket()) {
      socket.connect(new InetSocketAddress(target, 9));
      return socket.getLocalAddress();
    } catch (SocketException | UncheckedIOException e) {
      return InetAddress.getLoopbackAddress();
    }
  }
}
