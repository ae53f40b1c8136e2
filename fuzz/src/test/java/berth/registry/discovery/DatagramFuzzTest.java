package berth.registry.discovery;

import static org.assertj.core.api.Assertions.assertThat;

import berth.discovery.Datagrams;
import berth.fuzz.ShownText;
import berth.v1.DiscoveryAnswer;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.InvalidProtocolBufferException;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.channel.socket.DatagramPacket;
import java.net.InetSocketAddress;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class DatagramFuzzTest {
  private static final long NONCE = 7;
  private static final InetSocketAddress SOURCE = new InetSocketAddress("10.0.0.7", 4000);
  private static final InetSocketAddress HERE = new InetSocketAddress("10.0.0.8", 18811);

  static Stream<byte[]> seeds() {
    return Stream.of(
        Datagrams.query(NONCE).toByteArray(),
        Datagrams.answer(18810, "lab", 3).toBuilder().setNonce(NONCE).build().toByteArray());
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredWithNoMoreThanWasAsked(byte[] data) {
    EmbeddedChannel channel = new EmbeddedChannel();
    QueryHandler handler = new QueryHandler(Datagrams.answer(18810, "lab", 3), channel);
    channel.pipeline().addLast(handler);
    channel.writeInbound(new DatagramPacket(Unpooled.wrappedBuffer(data), HERE, SOURCE));

    assertThat(handler.unanswered().count(Unanswered.Why.FAILED)).isZero();
    DatagramPacket answer = channel.readOutbound();
    if (answer != null) {
      assertThat(answer.content().readableBytes()).isLessThanOrEqualTo(data.length);
      assertThat(answer.recipient()).isEqualTo(SOURCE);
      answer.release();
    }
    channel.finishAndReleaseAll();
    readAnswer(data);
  }

  /** As those who look for a registry do. */
  private static void readAnswer(byte[] data) {
    try {
      DiscoveryAnswer answer = DiscoveryAnswer.parseFrom(data);
      if (Datagrams.isAnswer(answer, NONCE)) {
        ShownText.check("name", answer.getName());
        assertThat(answer.getPort()).isBetween(1, 65535);
      }
    } catch (InvalidProtocolBufferException e) {
      // Not from a registry.
    }
  }
}
