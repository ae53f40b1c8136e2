package berth.registry.discovery;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class AnswerLimitTest {
  private long now = Long.MAX_VALUE - 1;
  private final AnswerLimit limit = new AnswerLimit(() -> now);

  @Test
  void givesASourceItsBurstAndThenItsRate() {
    assertThat(answers(source(1), 1000)).isEqualTo(AnswerLimit.PER_SOURCE_BURST);
    now += Duration.ofMillis(100).toNanos();
    assertThat(answers(source(1), 1000)).isEqualTo(AnswerLimit.PER_SOURCE / 10);
    now += Duration.ofHours(1).toNanos();
    assertThat(answers(source(1), 1000)).isEqualTo(AnswerLimit.PER_SOURCE_BURST);
  }

  @Test
  void aSourceThatAsksTooMuchTakesNothingFromOthers() {
    answers(source(1), 1_000_000);

    assertThat(answers(source(2), 1)).isEqualTo(1);
  }

  @Test
  void manySourcesTogetherGetNoMoreThanIsForAll() {
    assertThat(IntStream.range(0, 100_000).filter(i -> limit.allows(source(i))).count())
        .isEqualTo(AnswerLimit.IN_ALL);
    now += Duration.ofSeconds(1).toNanos();
    assertThat(limit.allows(source(1))).isTrue();
  }

  @Test
  void remembersOnlyTheNewestSources() {
    answers(source(0), 1000);
    for (int i = 1; i < 100_000; i++) {
      limit.allows(source(i));
    }
    assertThat(limit.sources()).isEqualTo(AnswerLimit.MOST_SOURCES);

    now += Duration.ofMillis(1).toNanos();
    assertThat(limit.allows(source(0))).as("it is forgotten").isTrue();
  }

  private long answers(InetAddress source, int queries) {
    return IntStream.range(0, queries).filter(i -> limit.allows(source)).count();
  }

  private static InetAddress source(int number) {
    byte[] bytes = {10, (byte) (number >> 16), (byte) (number >> 8), (byte) number};
    try {
      return InetAddress.getByAddress(bytes);
    } catch (UnknownHostException e) {
      throw new AssertionError(e);
    }
  }
}
