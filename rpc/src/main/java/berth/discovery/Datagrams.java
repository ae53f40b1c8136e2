package berth.discovery;

import berth.v1.DiscoveryAnswer;
import berth.v1.DiscoveryQuery;
import com.google.protobuf.ByteString;
import java.util.regex.Pattern;

/** What queries and answers must be like; see registry.proto. */
public final class Datagrams {
  public static final int MAX_QUERY_BYTES = 512;
  public static final int MAX_ANSWER_BYTES = 256;

  private static final int QUERY_MARK = 0x62657274;
  private static final int ANSWER_MARK = 0x62657261;
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,100}");

  private Datagrams() {}

  /** A query that is long enough for every answer. */
  public static DiscoveryQuery query(long nonce) {
    var query = DiscoveryQuery.newBuilder().setMark(QUERY_MARK).setNonce(nonce);
    // One byte announces the padding and two its length.
    int padding = MAX_ANSWER_BYTES - query.build().getSerializedSize() - 3;
    return query.setPadding(ByteString.copyFrom(new byte[padding])).build();
  }

  public static boolean isQuery(DiscoveryQuery query) {
    return query.getMark() == QUERY_MARK;
  }

  /** An answer without the nonce, which each query brings. */
  public static DiscoveryAnswer answer(int port, String name, long instance) {
    return DiscoveryAnswer.newBuilder()
        .setMark(ANSWER_MARK)
        .setPort(port)
        .setName(name)
        .setInstance(instance)
        .build();
  }

  public static boolean isAnswer(DiscoveryAnswer answer, long nonce) {
    return answer.getMark() == ANSWER_MARK
        && answer.getNonce() == nonce
        && answer.getPort() >= 1
        && answer.getPort() <= 65535
        && isName(answer.getName());
  }

  /** Whether a registry may be called so. Anything else could be hostile to a terminal. */
  public static boolean isName(String name) {
    return NAME.matcher(name).matches();
  }
}
