package berth.rpc;

import java.time.Duration;

/** Pauses between attempts, each twice as long as the one before, up to a limit. For one thread. */
public final class Backoff {
  private final Duration first;
  private final Duration longest;
  private Duration next;

  public Backoff(Duration first, Duration longest) {
    this.first = first;
    this.longest = longest;
    this.next = first;
  }

  /** The pause before the next attempt. */
  public Duration next() {
    Duration pause = next;
    Duration twice = pause.multipliedBy(2);
    next = twice.compareTo(longest) < 0 ? twice : longest;
    return pause;
  }

  /** Begins with the first pause again. */
  public void reset() {
    next = first;
  }
}
