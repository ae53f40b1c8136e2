package berth.registry.discovery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.discovery.Datagrams;
import berth.discovery.Discovery;
import berth.discovery.FoundRegistry;
import berth.discovery.Reach;
import berth.registry.discovery.Unanswered.Why;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.DiscoveryQuery;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class DiscoveryResponderTest {
  // Far more than one source is answered.
  private static final int FLOOD = 1000;
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final String NAME = "n".repeat(100);
  private static final int ANSWER_BYTES =
      Datagrams.answer(4711, NAME, 1).toBuilder().setNonce(1).build().getSerializedSize();

  private final DiscoveryResponder responder =
      DiscoveryResponder.listenOn(new Address("127.0.0.1", 0), 4711, NAME);
  private final int port = responder.address().port();

  @AfterEach
  void close() {
    responder.close();
  }

  @Test
  void isFoundOnThisMachine() {
    assertThat(Discovery.find(Reach.THIS_MACHINE, port, PATIENCE))
        .containsExactly(new FoundRegistry(new Address("127.0.0.1", 4711), NAME));
  }

  @Test
  void isNotFoundAnyMoreWhenItIsClosed() {
    responder.close();

    assertThat(Discovery.find(Reach.THIS_MACHINE, port, Duration.ofMillis(300))).isEmpty();
  }

  @Test
  void answersNoDatagramThatIsNoQuery() throws IOException {
    DiscoveryQuery query = Datagrams.query(1);
    byte[] bytes = query.toByteArray();
    List<byte[]> refused =
        List.of(
            new byte[0],
            new byte[1],
            new byte[256],
            new byte[20_000],
            "M-SEARCH * HTTP/1.1\r\n".repeat(12).getBytes(),
            Arrays.copyOf(bytes, bytes.length - 1),
            query.toBuilder().clearMark().build().toByteArray(),
            query.toBuilder().setMark(query.getMark() + 1).build().toByteArray(),
            Datagrams.answer(4711, NAME, 1).toBuilder().setNonce(1).build().toByteArray(),
            query.toBuilder().clearPadding().build().toByteArray(),
            ofLength(ANSWER_BYTES - 1),
            ofLength(Datagrams.MAX_QUERY_BYTES + 1));
    try (Asker asker = asker("127.0.0.1")) {
      for (byte[] datagram : refused) {
        asker.send(datagram);
      }
      asker.send(Datagrams.query(2).toByteArray());

      // Datagrams over loopback keep their order: an answer to one of those would be the first.
      assertThat(Asker.answer(asker.receive()).getNonce()).isEqualTo(2);
    }
    assertThat(responder.unanswered(Why.NO_QUERY)).isEqualTo(refused.size());
  }

  @Test
  void anAnswerIsNeverLongerThanItsQuery() throws IOException {
    try (Asker asker = asker("127.0.0.1")) {
      for (int length : List.of(ANSWER_BYTES, ANSWER_BYTES + 20, Datagrams.MAX_QUERY_BYTES)) {
        asker.send(ofLength(length));

        assertThat(asker.receive().getLength()).isEqualTo(ANSWER_BYTES).isLessThanOrEqualTo(length);
      }
    }
  }

  @Test
  void aFloodFromOneSourceIsLimitedWhileAnotherIsAnswered() throws Exception {
    AtomicBoolean over = new AtomicBoolean();
    long start = System.nanoTime();
    long answers;
    try (Asker flood = asker("127.0.0.1");
        Asker other = asker("127.0.0.2")) {
      byte[] query = Datagrams.query(1).toByteArray();
      CompletableFuture<Void> flooding =
          CompletableFuture.runAsync(
              () -> {
                for (int sent = 0; !over.get() || sent < FLOOD; sent++) {
                  flood.sendUnchecked(query);
                }
              });
      for (int i = 2; i < 12; i++) {
        other.ask(i);
      }
      over.set(true);
      flooding.join();
      // Whatever of the flood is still in line comes before this.
      other.ask(12);
      answers = flood.countReceived();
    }
    long seconds = Duration.ofNanos(System.nanoTime() - start).toSeconds() + 1;
    assertThat(answers)
        .isBetween(1L, AnswerLimit.PER_SOURCE_BURST + seconds * AnswerLimit.PER_SOURCE);
    assertThat(responder.unanswered(Why.TOO_MANY)).isPositive();
  }

  @Test
  void remembersNothingOfGarbage() throws IOException {
    Random random = new Random(1);
    try (Asker garbage = asker("127.0.0.1");
        Asker other = asker("127.0.0.2")) {
      for (int i = 0; i < 100_000; i++) {
        byte[] bytes = new byte[random.nextInt(600)];
        random.nextBytes(bytes);
        garbage.send(bytes);
      }
      other.ask(1);
    }
    assertThat(responder.unanswered(Why.NO_QUERY)).isGreaterThan(1000);
    assertThat(responder.rememberedSources()).isEqualTo(1);
  }

  @Test
  void remembersNoMoreSourcesThanItMay() throws IOException {
    byte[] query = Datagrams.query(1).toByteArray();
    try (Asker other = asker("127.0.0.2")) {
      for (int i = 0; i < AnswerLimit.MOST_SOURCES + 1000; i++) {
        try (Asker one = asker("127.1." + i / 250 + "." + (i % 250 + 1))) {
          one.send(query);
        }
        if (i % 100 == 0) {
          // So that none is lost because too many wait in line.
          other.ask(i);
        }
      }
      other.ask(-1);
    }
    assertThat(responder.rememberedSources()).isEqualTo(AnswerLimit.MOST_SOURCES);
  }

  @Test
  void saysThatThePortIsTaken() {
    assertThatThrownBy(
            () -> DiscoveryResponder.listenOn(new Address("127.0.0.1", port), 4712, "second"))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
        .hasMessage(
            "cannot listen for queries on UDP 127.0.0.1:" + port + ": Address already in use");
  }

  @Test
  void saysThatItIsNotForIpv6() {
    assertThatThrownBy(() -> DiscoveryResponder.listenOn(new Address("::1", 0), 4712, "six"))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
        .hasMessage("discovery is for IPv4, and ::1 is not");
  }

  @Test
  void refusesANameThatIsNone() {
    assertThatThrownBy(() -> DiscoveryResponder.listenOn(new Address("127.0.0.1", 0), 1, "a b"))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessageStartingWith("a registry cannot be called 'a b'");
  }

  private Asker asker(String sourceHost) throws IOException {
    return new Asker(sourceHost, new InetSocketAddress("127.0.0.1", port));
  }

  private static byte[] ofLength(int length) {
    DiscoveryQuery.Builder query = Datagrams.query(1).toBuilder();
    for (int padding = 0; padding <= length; padding++) {
      byte[] bytes = query.setPadding(ByteString.copyFrom(new byte[padding])).build().toByteArray();
      if (bytes.length == length) {
        return bytes;
      }
    }
    throw new AssertionError("no query has " + length + " bytes");
  }
}
