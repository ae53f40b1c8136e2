package berth.client.cluster;

import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;

/** Guesses which word was meant. */
final class Spelling {
  private Spelling() {}

  /** The known word that is nearest, if about every third letter at most is wrong. */
  static Optional<String> nearest(String word, Collection<String> known) {
    int most = Math.max(1, word.length() / 3);
    return known.stream()
        .filter(each -> distance(word, each) <= most)
        .min(Comparator.comparing((String each) -> distance(word, each)));
  }

  /** How many letters must be added, dropped, replaced, or swapped with the next. */
  static int distance(String a, String b) {
    int[][] rows = new int[a.length() + 1][b.length() + 1];
    for (int i = 0; i <= a.length(); i++) {
      for (int j = 0; j <= b.length(); j++) {
        if (i == 0 || j == 0) {
          rows[i][j] = i + j;
          continue;
        }
        int replaced = rows[i - 1][j - 1] + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        rows[i][j] = Math.min(replaced, 1 + Math.min(rows[i - 1][j], rows[i][j - 1]));
        boolean swapped =
            i > 1
                && j > 1
                && a.charAt(i - 1) == b.charAt(j - 2)
                && a.charAt(i - 2) == b.charAt(j - 1);
        if (swapped) {
          rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
        }
      }
    }
    return rows[a.length()][b.length()];
  }
}
