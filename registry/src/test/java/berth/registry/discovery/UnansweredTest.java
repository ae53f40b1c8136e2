package berth.registry.discovery;

import static org.assertj.core.api.Assertions.assertThat;

import berth.registry.discovery.Unanswered.Why;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class UnansweredTest {
  private long now = Long.MAX_VALUE - 1;
  private final Unanswered unanswered = new Unanswered(() -> now);

  @Test
  void tellsAtMostOnceAMinuteAndThenOfAll() {
    assertThat(unanswered.add(Why.NO_QUERY, "10.0.0.1"))
        .contains("datagrams not answered: 1 (no query); the last: 10.0.0.1");

    now += Duration.ofSeconds(59).toNanos();
    for (int i = 0; i < 1000; i++) {
      assertThat(unanswered.add(Why.NO_QUERY, "10.0.0.2")).isEmpty();
    }
    now += Duration.ofSeconds(1).toNanos();
    assertThat(unanswered.add(Why.TOO_MANY, "10.0.0.3"))
        .contains(
            "datagrams not answered: 1000 (no query), 1 (above the limit); the last: 10.0.0.3");
    assertThat(unanswered.count(Why.NO_QUERY)).isEqualTo(1001);
  }
}
