package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The users that the supervisors of clusters are, each with a group of the same number. No program
 * may be one of them: it could read what the supervisor has, and end it.
 *
 * @param last belongs to it too
 */
public record UidRange(int first, int last) {
  private static final Pattern RANGE = Pattern.compile("(\\d{1,10})-(\\d{1,10})");
  private static final int LEAST = 1000;

  public UidRange {
    if (first < LEAST || last < first || last == Integer.MAX_VALUE) {
      throw none(first + "-" + last);
    }
  }

  /**
   * @param text such as {@code 2100000000-2100009999}
   * @throws BerthException INVALID if that is no range, or has users of the system in it
   */
  public static UidRange parse(String text) {
    Matcher range = RANGE.matcher(text);
    if (!range.matches()
        || Long.parseLong(range.group(1)) > Integer.MAX_VALUE
        || Long.parseLong(range.group(2)) > Integer.MAX_VALUE) {
      throw none(text);
    }
    return new UidRange(Integer.parseInt(range.group(1)), Integer.parseInt(range.group(2)));
  }

  /**
   * Refuses a user of whom anything is a supervisor's.
   *
   * @throws BerthException DENIED
   */
  void refuse(RequestedRun.User user) {
    if (contains(user.uid()) || contains(user.gid())) {
      throw new BerthException(
          Reason.DENIED,
          "user "
              + user.uid()
              + ":"
              + user.gid()
              + " asked, but users and groups from "
              + first
              + " to "
              + last
              + " are those of the supervisors of clusters (--supervisor-uids)");
    }
  }

  private boolean contains(int id) {
    return id >= first && id <= last;
  }

  private static BerthException none(String text) {
    return new BerthException(
        Reason.INVALID,
        "'"
            + text
            + "' is not a range of user ids for supervisors, from "
            + LEAST
            + " up, such as 2100000000-2100009999");
  }
}
