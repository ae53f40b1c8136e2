package berth.registry.discovery;

import java.net.InetAddress;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * How many answers each source gets, and all together. For one thread.
 *
 * <p>A source can be forged. So the first limit protects whoever a query pretends to come from, and
 * the second the network and this process from many such sources, of which only the newest are
 * remembered.
 */
final class AnswerLimit {
  /** Of one machine may come many queries a second, if people run {@code berth} in loops. */
  static final int PER_SOURCE = 50;

  static final int PER_SOURCE_BURST = 100;
  static final int IN_ALL = 2000;
  static final int MOST_SOURCES = 4096;

  private final LongSupplier nanos;
  private final TokenBucket all;
  private final Map<InetAddress, TokenBucket> sources =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<InetAddress, TokenBucket> eldest) {
          return size() > MOST_SOURCES;
        }
      };

  AnswerLimit(LongSupplier nanos) {
    this.nanos = nanos;
    this.all = new TokenBucket(IN_ALL, IN_ALL, nanos.getAsLong());
  }

  /** Whether {@code source} may be answered now; if so, that is counted. */
  boolean allows(InetAddress source) {
    long now = nanos.getAsLong();
    // Its own limit first, so that one source cannot use up what is for all.
    return sources
            .computeIfAbsent(source, s -> new TokenBucket(PER_SOURCE, PER_SOURCE_BURST, now))
            .take(now)
        && all.take(now);
  }

  int sources() {
    return sources.size();
  }
}
