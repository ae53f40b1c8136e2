package berth.registry.discovery;

import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;

/**
 * Counts the datagrams that get no answer, and tells of them at most once a minute. For one thread.
 */
final class Unanswered {
  /** Why a datagram gets no answer. */
  enum Why {
    NO_QUERY("no query"),
    TOO_MANY("above the limit"),
    NOT_SENT("not sent by the network"),
    FAILED("failed here");

    private final String words;

    Why(String words) {
      this.words = words;
    }
  }

  private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);

  private final LongSupplier nanos;
  private final Map<Why, Long> all = new EnumMap<>(Why.class);
  private final Map<Why, Long> untold = new EnumMap<>(Why.class);
  private long toldAt;

  Unanswered(LongSupplier nanos) {
    this.nanos = nanos;
    this.toldAt = nanos.getAsLong() - PAUSE;
  }

  /**
   * Counts a datagram, and returns a sentence about all since the last sentence, if it is time.
   *
   * @param about its sender, or the failure
   */
  Optional<String> add(Why why, Object about) {
    all.merge(why, 1L, Long::sum);
    untold.merge(why, 1L, Long::sum);
    if (nanos.getAsLong() - toldAt < PAUSE) {
      return Optional.empty();
    }
    toldAt = nanos.getAsLong();
    String counts =
        untold.entrySet().stream()
            .map(entry -> entry.getValue() + " (" + entry.getKey().words + ")")
            .collect(Collectors.joining(", "));
    untold.clear();
    return Optional.of("datagrams not answered: " + counts + "; the last: " + about);
  }

  long count(Why why) {
    return all.getOrDefault(why, 0L);
  }
}
