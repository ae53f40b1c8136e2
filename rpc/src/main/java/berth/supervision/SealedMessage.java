package berth.supervision;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.Parser;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * A message in a file, with a checksum: an empty file would be an empty message otherwise, and
 * garbage perhaps another one.
 */
public final class SealedMessage {
  private static final int MAGIC = 0x42455254;
  private static final int HEADER = 8;

  private SealedMessage() {}

  /** The bytes of a file that holds {@code message}. */
  public static byte[] seal(Message message) {
    byte[] content = message.toByteArray();
    return ByteBuffer.allocate(HEADER + content.length)
        .putInt(MAGIC)
        .putInt(checksum(ByteBuffer.wrap(content)))
        .put(content)
        .array();
  }

  /**
   * The message that {@link #seal} was given.
   *
   * @throws InvalidProtocolBufferException if these are not the bytes that it returned
   */
  public static <T extends Message> T open(byte[] bytes, Parser<T> parser)
      throws InvalidProtocolBufferException {
    ByteBuffer all = ByteBuffer.wrap(bytes);
    if (all.remaining() < HEADER
        || all.getInt() != MAGIC
        || all.getInt() != checksum(all.duplicate())) {
      throw new InvalidProtocolBufferException(
          bytes.length == 0 ? "it is empty" : "its checksum does not match");
    }
    return parser.parseFrom(all);
  }

  private static int checksum(ByteBuffer content) {
    CRC32C sum = new CRC32C();
    sum.update(content);
    return (int) sum.getValue();
  }
}
