package berth.registry.discovery;

import berth.discovery.Datagrams;
import berth.v1.DiscoveryAnswer;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;

/** Sends any datagrams, and hears the answers. */
final class Asker implements AutoCloseable {
  private static final int TRIES = 100;
  private static final int SHORT_MILLIS = 100;
  private static final int PATIENCE_MILLIS = 10_000;

  private final DatagramSocket socket;
  private final InetSocketAddress responder;

  Asker(String sourceHost, InetSocketAddress responder) throws IOException {
    this.socket = new DatagramSocket(new InetSocketAddress(sourceHost, 0));
    this.responder = responder;
  }

  void send(byte[] datagram) throws IOException {
    socket.send(new DatagramPacket(datagram, datagram.length, responder));
  }

  void sendUnchecked(byte[] datagram) {
    try {
      send(datagram);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Asks until it hears the answer to {@code nonce}, since others may crowd it out. */
  void ask(long nonce) throws IOException {
    for (int i = 0; i < TRIES; i++) {
      send(Datagrams.query(nonce).toByteArray());
      try {
        while (answer(receive(SHORT_MILLIS)).getNonce() != nonce) {
          // That was to an earlier query.
        }
        return;
      } catch (SocketTimeoutException e) {
        // Again.
      }
    }
    throw new AssertionError("no answer to " + TRIES + " queries");
  }

  DatagramPacket receive() throws IOException {
    return receive(PATIENCE_MILLIS);
  }

  private DatagramPacket receive(int millis) throws IOException {
    socket.setSoTimeout(millis);
    var packet = new DatagramPacket(new byte[1000], 1000);
    socket.receive(packet);
    return packet;
  }

  /** Receives all that is there. */
  long countReceived() throws IOException {
    for (long count = 0; ; count++) {
      try {
        receive(SHORT_MILLIS);
      } catch (SocketTimeoutException e) {
        return count;
      }
    }
  }

  static DiscoveryAnswer answer(DatagramPacket packet) throws IOException {
    return DiscoveryAnswer.parseFrom(ByteString.copyFrom(packet.getData(), 0, packet.getLength()));
  }

  @Override
  public void close() {
    socket.close();
  }
}
