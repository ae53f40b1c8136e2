package berth.discovery;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.ShownText;
import berth.v1.DiscoveryAnswer;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The datagrams that one who looks for a registry hears: each begins with a byte that says from
 * where it comes, and two that say how long it is.
 */
class AnswersFuzzTest {
  private static final long NONCE = 7;
  private static final List<InetAddress> SOURCES =
      List.of(address(10, 0, 0, 7), address(127, 0, 0, 1), address(10, 0, 0, 8));

  private static InetAddress address(int... parts) {
    try {
      byte[] bytes = {(byte) parts[0], (byte) parts[1], (byte) parts[2], (byte) parts[3]};
      return InetAddress.getByAddress(bytes);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static Stream<byte[]> seeds() {
    DiscoveryAnswer lab = answer("lab", 1);
    return Stream.of(
        datagrams(lab.toByteArray()),
        datagrams(lab.toByteArray(), lab.toByteArray(), answer("other", 2).toByteArray()),
        datagrams(answer("a\u001b[1m", 1).toByteArray()),
        datagrams(lab.toBuilder().setNonce(NONCE + 1).build().toByteArray()),
        datagrams(lab.toBuilder().setPort(0).build().toByteArray()),
        datagrams(Datagrams.query(NONCE).toByteArray()),
        datagrams(new byte[Datagrams.MAX_ANSWER_BYTES + 1]));
  }

  private static DiscoveryAnswer answer(String name, long instance) {
    return Datagrams.answer(18810, name, instance).toBuilder().setNonce(NONCE).build();
  }

  private static byte[] datagrams(byte[]... datagrams) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (int i = 0; i < datagrams.length; i++) {
      bytes.write(i);
      bytes.write(datagrams[i].length >> 8);
      bytes.write(datagrams[i].length);
      bytes.writeBytes(datagrams[i]);
    }
    return bytes.toByteArray();
  }

  @MethodSource("seeds")
  @FuzzTest
  void nameOnlyRegistriesThatAnsweredThisQuery(byte[] data) {
    Answers answers = new Answers(NONCE);
    Set<Long> answered = new HashSet<>();
    Set<Long> onThisMachine = new HashSet<>();
    ByteBuffer in = ByteBuffer.wrap(data);
    while (in.remaining() >= 3) {
      InetAddress source = SOURCES.get((in.get() & 0xff) % SOURCES.size());
      byte[] datagram = new byte[Math.min(in.getShort() & 0xffff, in.remaining())];
      in.get(datagram);
      // As much of it as the socket takes.
      byte[] heard =
          Arrays.copyOf(datagram, Math.min(datagram.length, Datagrams.MAX_ANSWER_BYTES + 1));
      if (!answers.isFull()) {
        note(heard, source.isLoopbackAddress() ? onThisMachine : answered);
      }
      answers.take(ByteString.copyFrom(heard), source);
    }
    check(answers.registries(), answered, onThisMachine);
  }

  private static void note(byte[] datagram, Set<Long> instances) {
    try {
      DiscoveryAnswer answer = DiscoveryAnswer.parseFrom(datagram);
      if (answer.getNonce() == NONCE) {
        instances.add(answer.getInstance());
      }
    } catch (InvalidProtocolBufferException e) {
      // Not from a registry.
    }
  }

  private static void check(
      List<FoundRegistry> found, Set<Long> answered, Set<Long> onThisMachine) {
    assertThat(found).hasSizeLessThanOrEqualTo(Answers.MOST);
    long here = found.stream().filter(registry -> registry.address().leadsNowhereElse()).count();
    assertThat(here).isLessThanOrEqualTo(onThisMachine.size());
    assertThat(found.size() - here).isLessThanOrEqualTo(answered.size());
    for (FoundRegistry registry : found) {
      ShownText.check("name", registry.name());
      assertThat(registry.name()).isNotEmpty();
      assertThat(registry.address().port()).isBetween(1, 65535);
      assertThat(registry.address().host()).matches("[0-9.]+");
    }
  }
}
