package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class BackoffTest {
  private final Backoff pauses = new Backoff(Duration.ofSeconds(1), Duration.ofSeconds(5));

  @Test
  void doublesThePausesUpToTheLongest() {
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(1));
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(2));
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(4));
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(5));
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(5));
  }

  @Test
  void beginsAnewAfterAReset() {
    pauses.next();
    pauses.next();
    pauses.reset();
    assertThat(pauses.next()).isEqualTo(Duration.ofSeconds(1));
  }
}
