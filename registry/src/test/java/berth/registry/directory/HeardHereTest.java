package berth.registry.directory;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class HeardHereTest {
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 1);
  private final HeardHere heard = new HeardHere(Duration.ofSeconds(5), clock::get);

  @Test
  void whoWasHeardLatelyIsMissedOnce() {
    heard.heard("gpu01");
    clock.addAndGet(Duration.ofSeconds(6).toNanos());
    assertThat(heard.gone("gpu01")).isTrue();
    assertThat(heard.gone("gpu01")).isFalse();
  }

  @Test
  void whoWasHeardLongAgoHasMovedToAnotherRegistry() {
    heard.heard("gpu01");
    clock.addAndGet(Duration.ofSeconds(15).toNanos());
    assertThat(heard.gone("gpu01")).isFalse();
  }

  @Test
  void whoWasNeverHeardIsNotMissed() {
    assertThat(heard.gone("gpu01")).isFalse();
  }
}
