package berth.rpc;

import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;
import java.util.Optional;

/** Finds the name that a mistyped one was meant to be. */
public final class SimilarName {
  private static final int LONGEST = 64;

  private record Near(String name, int edits) {}

  private SimilarName() {}

  /** The most similar of {@code names}, if one differs by a typing error or two at most. */
  public static Optional<String> to(String typed, Collection<String> names) {
    String word = typed.toLowerCase(Locale.ROOT);
    if (word.length() > LONGEST) {
      return Optional.empty();
    }
    int most = word.length() < 4 ? 1 : 2;
    return names.stream()
        .filter(name -> name.length() <= LONGEST)
        .map(name -> new Near(name, edits(word, name.toLowerCase(Locale.ROOT))))
        .filter(near -> near.edits <= most)
        .min(Comparator.comparingInt(Near::edits).thenComparing(Near::name))
        .map(Near::name);
  }

  /** Levenshtein's distance. */
  private static int edits(String from, String to) {
    int[] row = new int[to.length() + 1];
    for (int j = 0; j <= to.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= from.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= to.length(); j++) {
        int replaced = diagonal + (from.charAt(i - 1) == to.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
      }
    }
    return row[to.length()];
  }
}
