package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class UidRangeTest {
  @Test
  void hasAFirstAndALastUser() {
    assertThat(UidRange.parse("1000-1000")).isEqualTo(new UidRange(1000, 1000));
    assertThat(UidRange.parse("2100000000-2100009999"))
        .isEqualTo(new UidRange(2_100_000_000, 2_100_009_999));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "1",
        "0-5",
        "999-2000",
        "5000-4000",
        "1000-2147483647",
        "1000-4294967295",
        "4294967295-4294967296",
        "a-b",
        "-1-5"
      })
  void aRangeWithSystemUsersOrNoneIsRefused(String range) {
    assertThatThrownBy(() -> UidRange.parse(range))
        .isInstanceOf(BerthException.class)
        .hasMessageStartingWith("'" + range + "' is not a range of user ids for supervisors");
  }
}
