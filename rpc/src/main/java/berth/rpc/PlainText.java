package berth.rpc;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Text of one line that comes from others and is shown to people, in a terminal, a log or a page:
 * names, owners, purposes, messages of failures. What cannot be seen in it could move a cursor,
 * begin a line that nobody wrote, or reverse what is read.
 */
public final class PlainText {
  // Control and format characters, separators of lines, halves of characters, and characters for
  // private use, which look like anything or nothing.
  private static final String HIDDEN = "\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\p{Co}";
  private static final Pattern ANY_HIDDEN = Pattern.compile("[" + HIDDEN + "]");
  // Colours are ours, and harmless; so are the ends of lines and tabs of something that has lines.
  private static final Pattern HIDDEN_IN_LINES =
      Pattern.compile("\033(?!\\[[0-9]{1,2}m)|[" + HIDDEN + "&&[^\033\n\t]]");
  private static final int LONGEST_ECHO = 40;

  private PlainText() {}

  /**
   * Returns {@code text} if it can be shown and is not too long.
   *
   * @param what whose text it is, for messages, such as {@code the purpose}
   * @throws BerthException INVALID if not
   */
  public static String check(String what, String text, int longest) {
    if (text.length() > longest) {
      throw new BerthException(
          Reason.INVALID,
          what + " has " + text.length() + " characters, " + longest + " are allowed");
    }
    Matcher hidden = ANY_HIDDEN.matcher(text);
    if (hidden.find()) {
      String shown = escape(text);
      throw new BerthException(
          Reason.INVALID,
          String.format(
              "%s must be plain text, but contains U+%04X, a control, format or private-use"
                  + " character: %s",
              what,
              hidden.group().codePointAt(0),
              shown.length() <= LONGEST_ECHO ? shown : shown.substring(0, LONGEST_ECHO) + "..."));
    }
    return text;
  }

  /** Whether it can be shown as it is. */
  public static boolean isPlain(String text) {
    return !ANY_HIDDEN.matcher(text).find();
  }

  /** The same with a question mark for each character that cannot be seen. */
  public static String clean(String text) {
    return ANY_HIDDEN.matcher(text).replaceAll("?");
  }

  /** The same for something of several lines, in which colours may be. */
  public static String cleanLines(String text) {
    return HIDDEN_IN_LINES.matcher(text).replaceAll("?");
  }

  /**
   * The same with an escape such as {@code \n} or {@code \}{@code u001b} for each character that
   * cannot be seen: of the form that JSON has too.
   */
  public static String escape(String text) {
    return ANY_HIDDEN
        .matcher(text)
        .replaceAll(hidden -> Matcher.quoteReplacement(escaped(hidden.group())));
  }

  /** A failure whose messages, and those of its causes, are escaped. The traces are the same. */
  public static Throwable escape(Throwable failure) {
    return new EscapedFailure(failure, EscapedFailure.DEEPEST);
  }

  private static String escaped(String hidden) {
    return switch (hidden) {
      case "\n" -> "\\n";
      case "\r" -> "\\r";
      case "\t" -> "\\t";
      default -> {
        StringBuilder escapes = new StringBuilder();
        hidden.chars().forEach(unit -> escapes.append(String.format("\\u%04x", unit)));
        yield escapes.toString();
      }
    };
  }

  /** What is printed in place of a failure. */
  private static final class EscapedFailure extends Throwable {
    static final int DEEPEST = 8;
    private static final long serialVersionUID = 1;

    private final String text;

    EscapedFailure(Throwable original, int depth) {
      super(null, cause(original, depth), true, true);
      text = PlainText.escape(original.toString());
      setStackTrace(original.getStackTrace());
      if (depth > 0) {
        for (Throwable suppressed : original.getSuppressed()) {
          addSuppressed(new EscapedFailure(suppressed, depth - 1));
        }
      }
    }

    // Causes may go round in a circle.
    private static EscapedFailure cause(Throwable original, int depth) {
      return original.getCause() == null || depth == 0
          ? null
          : new EscapedFailure(original.getCause(), depth - 1);
    }

    @Override
    public String toString() {
      return text;
    }
  }
}
