package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * What is left out of a bundle: {@code .git}, the logs of clusters, and what the file {@code
 * .berthignore} at its top says in the language of {@code .gitignore}. The last pattern that fits
 * decides; what is below a folder that is left out is left out too.
 *
 * <p>Also servers read it, of strangers: time is at most the product of the lengths of a pattern
 * and a path.
 */
public final class IgnoreFile {
  static final String NAME = ".berthignore";
  private static final String GIT = ".git";
  private static final String LOGS = "berth-logs";
  private static final String ANY_FOLDERS = "**";
  private static final long MOST_BYTES = 64 << 10;

  /**
   * One line.
   *
   * @param folders whether it fits folders only
   * @param anchored whether it begins at the top; else at any folder
   */
  private record Rule(boolean keeps, boolean folders, boolean anchored, List<String> segments) {
    static Optional<Rule> parse(String line) {
      String text = withoutBlanks(line);
      if (text.isEmpty() || text.startsWith("#")) {
        return Optional.empty();
      }
      boolean keeps = text.startsWith("!");
      text = keeps ? text.substring(1) : text;
      boolean folders = text.endsWith("/");
      text = folders ? text.substring(0, text.length() - 1) : text;
      boolean anchored = text.contains("/");
      text = text.startsWith("/") ? text.substring(1) : text;
      return text.isEmpty()
          ? Optional.empty()
          : Optional.of(new Rule(keeps, folders, anchored, Arrays.asList(text.split("/", -1))));
    }

    // Those at the end do not count, unless one says that the last does.
    private static String withoutBlanks(String line) {
      int end = line.length();
      while (end > 0 && line.charAt(end - 1) == ' ' && !(end > 1 && line.charAt(end - 2) == '\\')) {
        end--;
      }
      return line.substring(0, end);
    }

    boolean fits(List<String> path, boolean folder) {
      if (folders && !folder) {
        return false;
      }
      return anchored ? fitsAll(path) : glob(segments.get(0), path.get(path.size() - 1));
    }

    // As with letters below, only the last ** must be tried again.
    private boolean fitsAll(List<String> path) {
      int segment = 0;
      int name = 0;
      int retrySegment = -1;
      int retryName = 0;
      while (name < path.size()) {
        if (segment < segments.size() && segments.get(segment).equals(ANY_FOLDERS)) {
          if (segment == segments.size() - 1) {
            // All that is in a folder, but not that itself.
            return true;
          }
          retrySegment = ++segment;
          retryName = name;
        } else if (segment < segments.size() && glob(segments.get(segment), path.get(name))) {
          segment++;
          name++;
        } else if (retrySegment >= 0) {
          segment = retrySegment;
          name = ++retryName;
        } else {
          return false;
        }
      }
      return segment == segments.size();
    }
  }

  private final List<Rule> rules;

  private IgnoreFile(List<Rule> rules) {
    this.rules = rules;
  }

  /**
   * That of a folder, if it has one.
   *
   * @throws BerthException if it is no text, or too long
   * @throws IOException if it cannot be read
   */
  public static IgnoreFile of(Path folder) throws IOException {
    Path file = folder.resolve(NAME);
    if (!Files.isRegularFile(file)) {
      return parse("");
    }
    if (Files.size(file) > MOST_BYTES) {
      throw new BerthException(
          Reason.INVALID, file + " has " + Files.size(file) + " bytes, at most 64 KiB are read");
    }
    try {
      return parse(Files.readString(file));
    } catch (CharacterCodingException e) {
      throw new BerthException(Reason.INVALID, file + " is not a text in UTF-8", e);
    }
  }

  static IgnoreFile parse(String text) {
    return new IgnoreFile(text.lines().map(Rule::parse).flatMap(Optional::stream).toList());
  }

  /**
   * Whether a file or folder is left out, if all folders above it are not.
   *
   * @param path below the folder of this file
   */
  public boolean leavesOut(Path path, boolean folder) {
    String name = path.getFileName().toString();
    if (name.equals(GIT) || folder && name.equals(LOGS)) {
      return true;
    }
    List<String> names = Arrays.asList(path.toString().split("/"));
    for (int i = rules.size() - 1; i >= 0; i--) {
      if (rules.get(i).fits(names, folder)) {
        return !rules.get(i).keeps();
      }
    }
    return false;
  }

  /** The same for a file, with all folders above it. */
  public boolean leavesOutFile(Path path) {
    for (int i = 1; i < path.getNameCount(); i++) {
      if (leavesOut(path.subpath(0, i), true)) {
        return true;
      }
    }
    return leavesOut(path, false);
  }

  /** Whether a name fits a pattern of *, ?, [a-z] and \\ before what is meant literally. */
  private static boolean glob(String pattern, String name) {
    int p = 0;
    int n = 0;
    int retryPattern = -1;
    int retryName = 0;
    while (n < name.length()) {
      int end = p < pattern.length() ? one(pattern, p, name.charAt(n)) : -1;
      if (p < pattern.length() && pattern.charAt(p) == '*') {
        retryPattern = ++p;
        retryName = n;
      } else if (end > 0) {
        p = end;
        n++;
      } else if (retryPattern >= 0) {
        p = retryPattern;
        n = ++retryName;
      } else {
        return false;
      }
    }
    while (p < pattern.length() && pattern.charAt(p) == '*') {
      p++;
    }
    return p == pattern.length();
  }

  /** Where the pattern goes on after what stands for one letter; -1 if it does not fit. */
  private static int one(String pattern, int at, char letter) {
    char first = pattern.charAt(at);
    if (first == '?') {
      return at + 1;
    }
    int close = first == '[' ? pattern.indexOf(']', at + 2) : -1;
    if (close > 0) {
      return in(pattern.substring(at + 1, close), letter) ? close + 1 : -1;
    }
    int literal = first == '\\' && at + 1 < pattern.length() ? at + 1 : at;
    return pattern.charAt(literal) == letter ? literal + 1 : -1;
  }

  private static boolean in(String set, char letter) {
    boolean others = set.startsWith("!") || set.startsWith("^");
    for (int i = others ? 1 : 0; i < set.length(); i++) {
      boolean range = i + 2 < set.length() && set.charAt(i + 1) == '-';
      char last = range ? set.charAt(i + 2) : set.charAt(i);
      if (set.charAt(i) <= letter && letter <= last) {
        return !others;
      }
      i += range ? 2 : 0;
    }
    return others;
  }
}
