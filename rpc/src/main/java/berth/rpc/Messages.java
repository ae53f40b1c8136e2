package berth.rpc;

import berth.v1.WaitTime;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** Translates times between Java and protobuf. */
public final class Messages {
  // Clocks count nanoseconds in 64 bits, which is enough for about three times this.
  private static final Duration LONGEST = Duration.ofDays(36500);

  // What a Timestamp may say: the years from 1 to 9999.
  private static final Instant EARLIEST = Instant.parse("0001-01-01T00:00:00Z");
  private static final Instant LATEST = Instant.parse("9999-12-31T23:59:59Z");

  private Messages() {}

  public static Timestamp timestamp(Instant instant) {
    return Timestamp.newBuilder()
        .setSeconds(instant.getEpochSecond())
        .setNanos(instant.getNano())
        .build();
  }

  /** A moment; of those that no calendar has, the first or the last that it has. */
  public static Instant instant(Timestamp timestamp) {
    if (timestamp.getSeconds() < EARLIEST.getEpochSecond()) {
      return EARLIEST;
    }
    if (timestamp.getSeconds() > LATEST.getEpochSecond()) {
      return LATEST;
    }
    return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
  }

  public static com.google.protobuf.Duration duration(Duration duration) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(duration.getSeconds())
        .setNanos(duration.getNano())
        .build();
  }

  /**
   * A time that every timer can count.
   *
   * @throws BerthException INVALID if it is longer than a hundred years
   */
  public static Duration duration(com.google.protobuf.Duration duration) {
    long seconds = duration.getSeconds();
    if (seconds > LONGEST.toSeconds() || seconds < -LONGEST.toSeconds()) {
      throw new BerthException(
          Reason.INVALID,
          "a duration of " + seconds + " s; at most " + LONGEST.toDays() + " days are possible");
    }
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  /** How long a request waits in a queue; empty: until it is granted. */
  public static WaitTime waitTime(Optional<Duration> atMost) {
    return atMost.isPresent()
        ? WaitTime.newBuilder().setAtMost(duration(atMost.get())).build()
        : WaitTime.newBuilder().setForever(true).build();
  }
}
