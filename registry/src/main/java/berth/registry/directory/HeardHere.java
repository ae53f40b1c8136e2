package berth.registry.directory;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/**
 * Which servers this registry has heard lately, of several that share a store. All of them see that
 * a server is gone, and the store does not say why: so the one tells that heard it last. Any thread
 * may call.
 */
final class HeardHere {
  private final long lately;
  private final LongSupplier nanoClock;
  private final Map<String, Long> heard = new ConcurrentHashMap<>();

  HeardHere(Duration lease, LongSupplier nanoClock) {
    // A lease ends late if the store is slow, and whoever moved on was heard elsewhere since.
    this.lately = lease.multipliedBy(3).toNanos();
    this.nanoClock = nanoClock;
  }

  void heard(String name) {
    heard.put(name, nanoClock.getAsLong());
  }

  /** It is gone. Returns whether it was heard here lately, and nobody has said so before. */
  boolean gone(String name) {
    Long last = heard.remove(name);
    return last != null && nanoClock.getAsLong() - last < lately;
  }
}
