package berth.rpc;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Counts what clients have open, such as connections, in all and for each client, so that none of
 * them takes everything. A client is an IPv4 address, or an IPv6 network of 64 bits, out of which a
 * machine can have as many addresses as it likes. Any thread may call.
 */
public final class ClientCount {
  private static final int NETWORK_BYTES = 8;

  private final int most;
  private final int mostOfOne;
  private final Map<Object, Integer> open = new HashMap<>();
  private int all;

  /**
   * @param most in all
   * @param mostOfOne of one client
   */
  public ClientCount(int most, int mostOfOne) {
    this.most = most;
    this.mostOfOne = mostOfOne;
  }

  /**
   * Counts one more, if there may be one.
   *
   * @return why there may not be; if that is empty, {@link #remove} is to be called once for it
   */
  public synchronized Optional<String> add(SocketAddress client) {
    Object key = key(client);
    int own = open.getOrDefault(key, 0);
    if (own >= mostOfOne) {
      return Optional.of(own + " connections of this client are open, the maximum");
    }
    if (all >= most) {
      return Optional.of(all + " connections are open, the maximum");
    }
    open.put(key, own + 1);
    all++;
    return Optional.empty();
  }

  public synchronized void remove(SocketAddress client) {
    all--;
    open.computeIfPresent(key(client), (key, count) -> count == 1 ? null : count - 1);
  }

  synchronized int all() {
    return all;
  }

  /** What is one client. */
  static Object key(SocketAddress client) {
    if (!(client instanceof InetSocketAddress internet) || internet.getAddress() == null) {
      return "this machine";
    }
    InetAddress address = internet.getAddress();
    return address instanceof Inet6Address
        ? ByteBuffer.wrap(address.getAddress(), 0, NETWORK_BYTES).slice()
        : address;
  }
}
