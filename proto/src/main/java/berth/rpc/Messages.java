package berth.rpc;

import berth.v1.WaitTime;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** Translates times between Java and protobuf. */
public final class Messages {
  private Messages() {}

  public static Timestamp timestamp(Instant instant) {
    return Timestamp.newBuilder()
        .setSeconds(instant.getEpochSecond())
        .setNanos(instant.getNano())
        .build();
  }

  public static Instant instant(Timestamp timestamp) {
    return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
  }

  public static com.google.protobuf.Duration duration(Duration duration) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(duration.getSeconds())
        .setNanos(duration.getNano())
        .build();
  }

  public static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  /** How long a request waits in a queue; empty: until it is granted. */
  public static WaitTime waitTime(Optional<Duration> atMost) {
    return atMost.isPresent()
        ? WaitTime.newBuilder().setAtMost(duration(atMost.get())).build()
        : WaitTime.newBuilder().setForever(true).build();
  }
}
