package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.time.Instant;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MessagesTest {
  @ParameterizedTest
  @ValueSource(longs = {Long.MAX_VALUE, Long.MIN_VALUE, 9_300_000_000L, -9_300_000_000L})
  void refusesDurationsThatNoTimerCounts(long seconds) {
    Duration message = Duration.newBuilder().setSeconds(seconds).setNanos(999_999_999).build();
    assertThatThrownBy(() -> Messages.duration(message))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("at most 36500 days");
  }

  @Test
  void takesEveryDurationThatPeopleMean() {
    Duration century = Duration.newBuilder().setSeconds(36500L * 24 * 60 * 60).build();
    assertThat(Messages.duration(century)).isEqualTo(java.time.Duration.ofDays(36500));
    assertThat(Messages.duration(century).toNanos()).isPositive();
  }

  @ParameterizedTest
  @ValueSource(longs = {Long.MAX_VALUE, Long.MIN_VALUE})
  void readsMomentsThatNoCalendarHas(long seconds) {
    Timestamp message = Timestamp.newBuilder().setSeconds(seconds).setNanos(5).build();
    Instant moment = Messages.instant(message);
    assertThat(Messages.instant(Messages.timestamp(moment))).isEqualTo(moment);
    assertThat(moment.toEpochMilli()).isEqualTo(moment.getEpochSecond() * 1000);
  }
}
