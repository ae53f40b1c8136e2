package berth.cli;

import berth.rpc.Messages;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;

/** Times as people read them. */
record TimeText(Instant now, ZoneId zone) {
  static TimeText here() {
    return new TimeText(Instant.now(), ZoneId.systemDefault());
  }

  // The hour suffices for today.
  String time(Timestamp timestamp) {
    Instant instant = Messages.instant(timestamp);
    boolean today = instant.atZone(zone).toLocalDate().equals(now.atZone(zone).toLocalDate());
    return DateTimeFormatter.ofPattern(today ? "HH:mm:ss" : "MMM d HH:mm")
        .format(instant.atZone(zone));
  }

  /** How long ago; the server's clock may be ahead of ours. */
  Duration since(Timestamp timestamp) {
    Duration age = Duration.between(Messages.instant(timestamp), now);
    return age.isNegative() ? Duration.ZERO : age;
  }

  static String span(Duration duration) {
    long seconds = duration.plusMillis(500).toSeconds();
    if (seconds < 120) {
      return seconds + "s";
    }
    long minutes = (seconds + 30) / 60;
    return minutes < 120
        ? minutes + "m"
        : minutes / 60 + "h" + (minutes % 60 == 0 ? "" : minutes % 60 + "m");
  }
}
