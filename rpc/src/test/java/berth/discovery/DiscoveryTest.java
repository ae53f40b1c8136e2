package berth.discovery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.DiscoveryAnswer;
import berth.v1.DiscoveryQuery;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The seeker, on this machine alone. */
class DiscoveryTest {
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  @Test
  void findsARegistryLongBeforeTheTimeIsOver() throws IOException {
    try (var registry = new PretendedRegistry(query -> List.of(good(query).toByteArray()))) {
      long start = System.nanoTime();
      List<FoundRegistry> found = find(registry, PATIENCE);

      assertThat(found)
          .containsExactly(new FoundRegistry(new Address("127.0.0.1", 4711), "registry01"));
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(PATIENCE.dividedBy(2));
    }
  }

  @Test
  void asksWithAnotherNumberEachTime() throws IOException {
    try (var registry = new PretendedRegistry(query -> List.of(good(query).toByteArray()))) {
      find(registry, PATIENCE);
      find(registry, PATIENCE);

      assertThat(registry.queries()).extracting(DiscoveryQuery::getNonce).doesNotHaveDuplicates();
      assertThat(registry.queries())
          .allSatisfy(query -> assertThat(query.getSerializedSize()).isEqualTo(256));
    }
  }

  @Test
  void asksAgainWhenDatagramsGetLost() throws IOException {
    var lost = new AtomicInteger();
    try (var registry =
        new PretendedRegistry(
            query ->
                lost.incrementAndGet() <= 2 ? List.of() : List.of(good(query).toByteArray()))) {
      assertThat(find(registry, PATIENCE)).hasSize(1);
    }
  }

  @Test
  void ignoresWhatIsNoAnswer() throws IOException {
    try (var registry =
        new PretendedRegistry(
            query -> {
              DiscoveryAnswer good = good(query);
              byte[] bytes = good.toByteArray();
              return List.of(
                  new byte[0],
                  new byte[1000],
                  "HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(),
                  Arrays.copyOf(bytes, bytes.length - 1),
                  query.toByteArray(),
                  good.toBuilder().clearMark().build().toByteArray(),
                  good.toBuilder().setNonce(query.getNonce() + 1).build().toByteArray(),
                  good.toBuilder().setPort(0).build().toByteArray(),
                  good.toBuilder().setPort(65536).build().toByteArray(),
                  good.toBuilder().setPort(-1).build().toByteArray(),
                  good.toBuilder().setName("").build().toByteArray(),
                  good.toBuilder().setName("\033[2Jregistry").build().toByteArray(),
                  good.toBuilder().setName("n".repeat(101)).build().toByteArray(),
                  tooLong(good));
            })) {
      assertThat(find(registry, Duration.ofMillis(400))).isEmpty();
      assertThat(registry.queries()).hasSizeGreaterThan(1);
    }
  }

  @Test
  void findsARegistryAmongGarbage() throws IOException {
    try (var registry =
        new PretendedRegistry(
            query -> List.of(new byte[1000], new byte[3], good(query).toByteArray()))) {
      assertThat(find(registry, PATIENCE)).hasSize(1);
    }
  }

  @Test
  void anInterruptEndsTheSearch() throws IOException {
    try (var registry = new PretendedRegistry(query -> List.of())) {
      Thread.currentThread().interrupt();
      assertThatThrownBy(() -> find(registry, PATIENCE))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CANCELLED));
      assertThat(Thread.interrupted()).isTrue();
    }
  }

  private static List<FoundRegistry> find(PretendedRegistry registry, Duration timeout) {
    return Discovery.find(Reach.THIS_MACHINE, registry.port(), timeout);
  }

  private static DiscoveryAnswer good(DiscoveryQuery query) {
    return Datagrams.answer(4711, "registry01", 5).toBuilder().setNonce(query.getNonce()).build();
  }

  private static byte[] tooLong(DiscoveryAnswer answer) {
    var more =
        UnknownFieldSet.Field.newBuilder()
            .addLengthDelimited(ByteString.copyFrom(new byte[Datagrams.MAX_ANSWER_BYTES]))
            .build();
    return answer.toBuilder()
        .setUnknownFields(UnknownFieldSet.newBuilder().addField(99, more).build())
        .build()
        .toByteArray();
  }
}
