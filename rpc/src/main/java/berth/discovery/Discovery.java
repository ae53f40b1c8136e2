package berth.discovery;

import berth.rpc.Backoff;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.InterfaceAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.nio.channels.DatagramChannel;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Finds registries by UDP, over IPv4.
 *
 * <p>Whoever hears a query can answer it: what is found is a hint where to call, no proof of who is
 * there.
 */
public final class Discovery {
  /** The UDP port on which registries listen for queries, unless they are told otherwise. */
  public static final int PORT = 18811;

  // Others on the same networks need hardly longer than the first.
  private static final long COLLECTING = TimeUnit.MILLISECONDS.toNanos(50);
  private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);
  private static final InetAddress LOOPBACK = new InetSocketAddress("127.0.0.1", 0).getAddress();

  private final Set<InetAddress> targets;
  private final int port;
  private final DatagramSocket socket;
  private final long nonce = new SecureRandom().nextLong();
  private final Answers answers = new Answers(nonce);

  private Discovery(Set<InetAddress> targets, int port, DatagramSocket socket) {
    this.targets = targets;
    this.port = port;
    this.socket = socket;
  }

  /** The same with {@link #PORT}. */
  public static List<FoundRegistry> find(Reach reach, Duration timeout) {
    return find(reach, PORT, timeout);
  }

  /**
   * Asks for registries, and again from time to time until there is an answer.
   *
   * <p>On this machine there can be only one. On the local network, others have a moment to answer
   * after the first one. A registry that is heard over several addresses is returned once: with its
   * loopback address if it is one of this machine, else with the address that was heard first.
   *
   * @param port the UDP port on which the registries listen for queries
   * @return the registries in the order of their answers; empty if nobody answered in time
   * @throws BerthException if this thread is interrupted, or if there is no UDP on this machine
   */
  public static List<FoundRegistry> find(Reach reach, int port, Duration timeout) {
    try (DatagramChannel channel = DatagramChannel.open(StandardProtocolFamily.INET)) {
      Set<InetAddress> targets = new LinkedHashSet<>(List.of(LOOPBACK));
      if (reach == Reach.THIS_MACHINE) {
        channel.bind(new InetSocketAddress(LOOPBACK, 0));
      } else {
        channel.bind(null);
        targets.addAll(broadcastAddresses());
      }
      DatagramSocket socket = channel.socket();
      socket.setBroadcast(true);
      var discovery = new Discovery(targets, port, socket);
      discovery.collect(timeout.toNanos(), reach == Reach.THIS_MACHINE ? 0 : COLLECTING);
      return discovery.answers.registries();
    } catch (IOException e) {
      if (Thread.currentThread().isInterrupted()) {
        throw new BerthException(Reason.CANCELLED, "the search for a registry was interrupted", e);
      }
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot look for a registry: " + e.getMessage(), e);
    }
  }

  /**
   * Fills {@link #answers}, for {@code timeout} or for {@code collecting} after the first answer.
   */
  private void collect(long timeout, long collecting) throws IOException {
    long start = System.nanoTime();
    long elapsed = 0;
    long end = timeout;
    Backoff pauses = new Backoff(FIRST_PAUSE, LONGEST_PAUSE);
    long nextQuery = 0;
    while (elapsed < end && !answers.isFull()) {
      if (answers.isEmpty() && elapsed >= nextQuery) {
        ask();
        nextQuery = elapsed + pauses.next().toNanos();
      }
      boolean first = answers.isEmpty();
      hear(Math.min(end, first ? nextQuery : end) - elapsed);
      elapsed = System.nanoTime() - start;
      if (first && !answers.isEmpty()) {
        end = Math.min(end, elapsed + collecting);
      }
    }
  }

  private void ask() {
    byte[] query = Datagrams.query(nonce).toByteArray();
    for (InetAddress target : targets) {
      try {
        socket.send(new DatagramPacket(query, query.length, target, port));
      } catch (IOException e) {
        // That network is down, or a firewall forbids it; the others may work.
      }
    }
  }

  /** Waits for one datagram, but no longer than {@code nanos}. */
  private void hear(long nanos) throws IOException {
    byte[] buffer = new byte[Datagrams.MAX_ANSWER_BYTES + 1];
    var packet = new DatagramPacket(buffer, buffer.length);
    // 0 would mean for ever.
    long millis = TimeUnit.NANOSECONDS.toMillis(nanos) + 1;
    socket.setSoTimeout((int) Math.min(millis, Integer.MAX_VALUE));
    try {
      socket.receive(packet);
    } catch (SocketTimeoutException e) {
      return;
    }
    answers.take(ByteString.copyFrom(buffer, 0, packet.getLength()), packet.getAddress());
  }

  private static Set<InetAddress> broadcastAddresses() {
    Set<InetAddress> addresses = new LinkedHashSet<>();
    for (NetworkInterface network : networks()) {
      for (InterfaceAddress address : network.getInterfaceAddresses()) {
        InetAddress broadcast = address.getBroadcast();
        if (broadcast != null && !broadcast.isAnyLocalAddress() && isUp(network)) {
          addresses.add(broadcast);
        }
      }
    }
    return addresses;
  }

  private static List<NetworkInterface> networks() {
    try {
      return Collections.list(NetworkInterface.getNetworkInterfaces());
    } catch (SocketException e) {
      // There are none.
      return List.of();
    }
  }

  private static boolean isUp(NetworkInterface network) {
    try {
      return network.isUp() && !network.isLoopback();
    } catch (SocketException e) {
      // It has just been removed.
      return false;
    }
  }
}
