package berth.e2e.soak;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The lines of a soak's programs as somebody has read them.
 *
 * @param counts how many lines of each run there are
 * @param problems what is wrong with them: lines that are missing, come twice, or are no whole
 *     lines
 */
record Printed(Map<String, Integer> counts, List<String> problems) {
  private static final Pattern LINE = Pattern.compile("(?:\\[\\S+\\] +)?(run-\\w+) (\\d+) \\.{40}");

  /** Those that were read from the beginning. */
  static Printed of(List<String> lines) {
    return of(lines, false);
  }

  /**
   * @param late whether the reader may have come after the first lines of a run
   */
  static Printed of(List<String> lines, boolean late) {
    Map<String, Integer> counts = new LinkedHashMap<>();
    List<String> problems = new ArrayList<>();
    for (String line : lines) {
      Matcher matcher = LINE.matcher(line);
      if (!matcher.matches()) {
        problems.add("'" + line + "' was never printed");
        continue;
      }
      String run = matcher.group(1);
      int number = Integer.parseInt(matcher.group(2));
      int before = counts.getOrDefault(run, 0);
      boolean first = late && !counts.containsKey(run);
      if (number != before + 1 && !first) {
        problems.add("line " + number + " of " + run + " comes after line " + before);
      }
      counts.put(run, number);
    }
    return new Printed(counts, problems);
  }

  /** What is wrong with the lines of one run, compared with what it has printed. */
  List<String> compare(Journal journal, boolean whole) {
    int read = counts.getOrDefault(journal.run(), 0);
    boolean right = whole ? journal.printed(read) : journal.mayHavePrinted(read);
    return right
        ? List.of()
        : List.of(read + " lines of " + journal.run() + " were read, it printed " + said(journal));
  }

  private static String said(Journal journal) {
    OptionalInt end = journal.end();
    return journal.lines()
        + (end.isPresent() ? " and ended with " + end.getAsInt() : " and was killed");
  }
}
