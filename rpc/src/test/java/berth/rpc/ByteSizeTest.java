package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ByteSizeTest {
  @ParameterizedTest
  @CsvSource({
    "0, 0 bytes",
    "1, 1 byte",
    "1023, 1023 bytes",
    "1024, 1 KiB",
    "1048575, 1 MiB",
    "1048576, 1 MiB",
    "1610612736, 1.5 GiB",
    "107374182400, 100 GiB",
    "9223372036854775807, 8 EiB",
    "-1048576, -1 MiB",
  })
  void isSaidInTheUnitsOfPeople(long bytes, String text) {
    assertThat(ByteSize.text(bytes)).isEqualTo(text);
  }
}
