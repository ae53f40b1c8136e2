package berth.discovery;

import berth.rpc.Address;
import berth.v1.DiscoveryAnswer;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import java.net.InetAddress;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The registries that answered one query. Ignores every datagram that is no answer to it. */
final class Answers {
  // No network has more; somebody could pretend to be millions.
  static final int MOST = 256;

  private final long nonce;
  private final Map<Long, FoundRegistry> found = new LinkedHashMap<>();

  /**
   * @param nonce of the query
   */
  Answers(long nonce) {
    this.nonce = nonce;
  }

  /**
   * Takes a datagram.
   *
   * @param data longer than an answer may be if it was cut
   */
  void take(ByteString data, InetAddress source) {
    if (data.size() > Datagrams.MAX_ANSWER_BYTES || isFull()) {
      return;
    }
    try {
      DiscoveryAnswer answer = DiscoveryAnswer.parseFrom(data);
      if (Datagrams.isAnswer(answer, nonce)) {
        note(answer, source);
      }
    } catch (InvalidProtocolBufferException e) {
      // Not from a registry.
    }
  }

  private void note(DiscoveryAnswer answer, InetAddress source) {
    var address = new Address(source.getHostAddress(), answer.getPort());
    var registry = new FoundRegistry(address, answer.getName());
    if (source.isLoopbackAddress()) {
      found.put(answer.getInstance(), registry);
    } else {
      found.putIfAbsent(answer.getInstance(), registry);
    }
  }

  boolean isEmpty() {
    return found.isEmpty();
  }

  /** Whether no more are taken. */
  boolean isFull() {
    return found.size() >= MOST;
  }

  /** In the order of their first answers. */
  List<FoundRegistry> registries() {
    return List.copyOf(found.values());
  }
}
