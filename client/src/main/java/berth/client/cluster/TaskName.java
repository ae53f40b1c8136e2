package berth.client.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.regex.Pattern;

/**
 * One task of a cluster: {@code worker:1}.
 *
 * @param type what it does: {@code chief}, {@code worker}, {@code ps}, or any other name
 * @param index from 0
 */
public record TaskName(String type, int index) {
  private static final Pattern TYPE = Pattern.compile("[a-z][a-z0-9_-]{0,39}");

  public TaskName {
    checkType(type);
  }

  static void checkType(String type) {
    if (!TYPE.matcher(type).matches()) {
      throw new BerthException(
          Reason.INVALID,
          "'"
              + type
              + "' is not a type of tasks: lower-case letters, digits, - and _, as in worker or"
              + " ps");
    }
  }

  @Override
  public String toString() {
    return type + ":" + index;
  }
}
