package berth.server.cluster;

import berth.supervision.SealedMessage;
import berth.v1.ClusterStatus;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * What a supervisor says of its cluster: a file of a stranger, and in it texts of strangers, which
 * go to terminals and logs from here.
 */
final class SupervisorStatus {
  private static final long LARGEST = 16 << 20;
  private static final Pattern UNPRINTABLE = Pattern.compile("[\\p{Cc}\\p{Cf}\\u2028\\u2029]");

  // Those of google.protobuf.Timestamp and Duration; Java's own reach further.
  private static final long EARLIEST = -62_135_596_800L;
  private static final long LATEST = 253_402_300_799L;
  private static final long LONGEST = 315_576_000_000L;
  private static final int NANOS = 1_000_000_000;

  private SupervisorStatus() {}

  /**
   * Reads it; empty if there is none yet.
   *
   * @throws IOException if it is no whole status, or one that is not to be believed
   */
  static Optional<ClusterStatus> read(Path file) throws IOException {
    byte[] bytes;
    try (FileChannel channel = open(file)) {
      long size = channel.size();
      if (size > LARGEST) {
        throw new IOException(file + " has " + size + " bytes, at most " + LARGEST + " are read");
      }
      ByteBuffer all = ByteBuffer.allocate((int) size);
      while (all.hasRemaining() && channel.read(all) >= 0) {}
      bytes = new byte[all.position()];
      all.flip().get(bytes);
    } catch (NoSuchFileException e) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          (ClusterStatus) checked(SealedMessage.open(bytes, ClusterStatus.parser())));
    } catch (InvalidProtocolBufferException e) {
      throw new IOException(file + " is damaged: " + e.getMessage(), e);
    }
  }

  // Not for reading alone: the other end of a named pipe would be waited for. Such a pipe has no
  // length, so nothing is read of it either.
  private static FileChannel open(Path file) throws IOException {
    try {
      return FileChannel.open(
          file,
          Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS));
    } catch (NoSuchFileException e) {
      throw e;
    } catch (IOException e) {
      throw new IOException(file + " is no file that can be read: " + e.getMessage(), e);
    }
  }

  /** The text without what a terminal or a log could take for something else. */
  static String clean(String text) {
    return UNPRINTABLE.matcher(text).replaceAll("?");
  }

  private static Message checked(Message message) throws InvalidProtocolBufferException {
    checkTime(message);
    Message.Builder cleaned = null;
    for (var entry : message.getAllFields().entrySet()) {
      FieldDescriptor field = entry.getKey();
      boolean text = field.getJavaType() == FieldDescriptor.JavaType.STRING;
      if (!text && field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
        continue;
      }
      List<?> values = field.isRepeated() ? (List<?>) entry.getValue() : List.of(entry.getValue());
      for (int i = 0; i < values.size(); i++) {
        Object value = values.get(i);
        Object better = text ? clean((String) value) : checked((Message) value);
        if (!better.equals(value)) {
          cleaned = cleaned == null ? message.toBuilder() : cleaned;
          if (field.isRepeated()) {
            cleaned.setRepeatedField(field, i, better);
          } else {
            cleaned.setField(field, better);
          }
        }
      }
    }
    return cleaned == null ? message : cleaned.build();
  }

  private static void checkTime(Message message) throws InvalidProtocolBufferException {
    boolean right = true;
    if (message instanceof Timestamp time) {
      right =
          time.getSeconds() >= EARLIEST
              && time.getSeconds() <= LATEST
              && time.getNanos() >= 0
              && time.getNanos() < NANOS;
    } else if (message instanceof Duration time) {
      right =
          Math.abs((double) time.getSeconds()) <= LONGEST
              && Math.abs((double) time.getNanos()) < NANOS;
    }
    if (!right) {
      throw new InvalidProtocolBufferException("invalid timestamp");
    }
  }
}
