package berth.registry.discovery;

import java.util.concurrent.TimeUnit;

/** Allows so much a second, and so much at once after a pause. For one thread. */
final class TokenBucket {
  private static final double NANOS = TimeUnit.SECONDS.toNanos(1);

  private final double perSecond;
  private final double burst;
  private double tokens;
  private long filledAt;

  TokenBucket(double perSecond, double burst, long now) {
    this.perSecond = perSecond;
    this.burst = burst;
    this.tokens = burst;
    this.filledAt = now;
  }

  /** Takes a token, if there is one. */
  boolean take(long now) {
    tokens = Math.min(burst, tokens + (now - filledAt) * perSecond / NANOS);
    filledAt = now;
    if (tokens < 1) {
      return false;
    }
    tokens--;
    return true;
  }
}
