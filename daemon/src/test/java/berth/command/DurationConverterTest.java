package berth.command;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine.TypeConversionException;

class DurationConverterTest {
  private final DurationConverter converter = new DurationConverter();

  @ParameterizedTest
  @CsvSource({
    "500ms, PT0.5S",
    "30s, PT30S",
    "10m, PT10M",
    "2h, PT2H",
    "1d, PT24H",
    "1h30m, PT1H30M",
    "2d12h5s, PT60H5S",
    "1m500ms, PT1M0.5S",
    "0s, PT0S",
    "' 5s ', PT5S",
  })
  void readsWhatPeopleWrite(String text, Duration duration) {
    assertThat(converter.convert(text)).isEqualTo(duration);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "5", "s", "5 s", "-5s", "1.5h", "5S", "30m1h", "1h1h", "1h30"})
  void refusesEverythingElse(String text) {
    assertThatThrownBy(() -> converter.convert(text))
        .isInstanceOf(TypeConversionException.class)
        .hasMessage("'" + text + "' is not a duration such as 30s, 10m or 1h30m");
  }

  @ParameterizedTest
  @ValueSource(strings = {"36501d", "9999999999s"})
  void refusesWhatNoClockCanCount(String text) {
    assertThatThrownBy(() -> converter.convert(text))
        .isInstanceOf(TypeConversionException.class)
        .hasMessage("'" + text + "' is longer than 36500d");
  }
}
