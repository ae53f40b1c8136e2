package berth.discovery;

import berth.v1.DiscoveryQuery;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;

/** Answers queries on a port of loopback with whatever a test wants. */
final class PretendedRegistry implements AutoCloseable {
  private final DatagramSocket socket;
  private final List<DiscoveryQuery> queries = new CopyOnWriteArrayList<>();
  private final Function<DiscoveryQuery, List<byte[]>> answers;

  PretendedRegistry(Function<DiscoveryQuery, List<byte[]>> answers) throws IOException {
    this.answers = answers;
    socket = new DatagramSocket(new InetSocketAddress("127.0.0.1", 0));
    Thread thread = new Thread(this::answer, "registry");
    thread.setDaemon(true);
    thread.start();
  }

  int port() {
    return socket.getLocalPort();
  }

  /** What was heard so far. */
  List<DiscoveryQuery> queries() {
    return queries;
  }

  private void answer() {
    var packet = new DatagramPacket(new byte[1000], 1000);
    while (true) {
      try {
        socket.receive(packet);
        var query =
            DiscoveryQuery.parseFrom(ByteString.copyFrom(packet.getData(), 0, packet.getLength()));
        queries.add(query);
        for (byte[] answer : answers.apply(query)) {
          socket.send(new DatagramPacket(answer, answer.length, packet.getSocketAddress()));
        }
      } catch (IOException e) {
        if (socket.isClosed()) {
          return;
        }
        throw new UncheckedIOException(e);
      }
    }
  }

  @Override
  public void close() {
    socket.close();
  }
}
