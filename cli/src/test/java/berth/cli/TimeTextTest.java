package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.command.DurationConverter;
import java.time.Duration;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TimeTextTest {
  @ParameterizedTest
  @CsvSource({
    "PT0S, 0s",
    "PT1M59S, 119s",
    "PT2M, 2m",
    "PT1H30M, 90m",
    "PT2H, 2h",
    "PT2H30M, 2h30m",
    "PT36H, 36h",
  })
  void aDurationIsPrintedAsItCanBeTyped(Duration duration, String text) {
    assertThat(TimeText.span(duration)).isEqualTo(text);
    assertThat(new DurationConverter().convert(text)).isEqualTo(duration);
  }
}
