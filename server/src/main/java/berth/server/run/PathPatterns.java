package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Patterns of paths below a folder, such as {@code model/*.h5}: {@code *}, {@code ?} and {@code
 * [a-z]} stand for characters of one name, {@code **} as a name for any folders, {@code .} for all.
 * They are matched name by name, on the way down from the folder, so that nobody has to look where
 * nothing can match.
 *
 * <p>Not with Java's own: a few stars in one of those keep it busy for years.
 */
final class PathPatterns {
  /** How far a path got in a pattern: all names before {@code name} have matched. */
  record Place(int pattern, int name) {}

  private final List<String> texts;
  private final List<List<String>> patterns = new ArrayList<>();

  /**
   * @throws BerthException INVALID if one leads out of the folder
   */
  PathPatterns(List<String> texts) {
    this.texts = List.copyOf(texts);
    for (String text : texts) {
      List<String> names =
          Arrays.stream(text.split("/"))
              .filter(name -> !name.isEmpty() && !name.equals("."))
              .toList();
      if (text.isEmpty()) {
        throw new BerthException(
            Reason.INVALID, "a path is empty; the whole working folder is named '.'");
      }
      if (text.startsWith("/") || names.contains("..")) {
        throw new BerthException(
            Reason.INVALID, "the path '" + text + "' leads out of the working folder");
      }
      patterns.add(names);
    }
  }

  int size() {
    return texts.size();
  }

  String text(int pattern) {
    return texts.get(pattern);
  }

  /** The places of the folder itself. */
  Set<Place> start() {
    Set<Place> places = new LinkedHashSet<>();
    for (int i = 0; i < patterns.size(); i++) {
      add(places, i, 0);
    }
    return places;
  }

  /** The places of {@code name} in a folder at {@code places}; none if nothing there can match. */
  Set<Place> below(Set<Place> places, String name) {
    Set<Place> below = new LinkedHashSet<>();
    for (Place place : places) {
      if (!isComplete(place)) {
        String pattern = patterns.get(place.pattern).get(place.name);
        if (pattern.equals("**")) {
          add(below, place.pattern, place.name);
        } else if (pattern.equals(name) || matches(pattern, name)) {
          add(below, place.pattern, place.name + 1);
        }
      }
    }
    return below;
  }

  /** Whether the whole pattern has matched, and so names what is at this place. */
  boolean isComplete(Place place) {
    return place.name == patterns.get(place.pattern).size();
  }

  private void add(Set<Place> places, int pattern, int name) {
    places.add(new Place(pattern, name));
    List<String> names = patterns.get(pattern);
    if (name < names.size() && names.get(name).equals("**")) {
      add(places, pattern, name + 1);
    }
  }

  private static boolean matches(String pattern, String name) {
    int p = 0;
    int n = 0;
    int star = -1;
    int starred = 0;
    while (n < name.length()) {
      if (p < pattern.length() && pattern.charAt(p) == '*') {
        star = p++;
        starred = n;
        continue;
      }
      int next = p < pattern.length() ? afterMatch(pattern, p, name.charAt(n)) : -1;
      if (next >= 0) {
        p = next;
        n++;
      } else if (star >= 0) {
        // Only the last star needs to take more: what the ones before it took can stay.
        p = star + 1;
        n = ++starred;
      } else {
        return false;
      }
    }
    while (p < pattern.length() && pattern.charAt(p) == '*') {
      p++;
    }
    return p == pattern.length();
  }

  /** Where the pattern goes on after {@code p} has matched the character; -1 if it does not. */
  private static int afterMatch(String pattern, int p, char character) {
    char first = pattern.charAt(p);
    int end = first == '[' ? pattern.indexOf(']', p + 2) : -1;
    if (end < 0) {
      return first == '?' || first == character ? p + 1 : -1;
    }
    boolean negated = pattern.charAt(p + 1) == '!';
    boolean found = false;
    for (int i = negated ? p + 2 : p + 1; i < end; i++) {
      if (i + 2 < end && pattern.charAt(i + 1) == '-') {
        found |= pattern.charAt(i) <= character && character <= pattern.charAt(i + 2);
        i += 2;
      } else {
        found |= pattern.charAt(i) == character;
      }
    }
    return found != negated ? end + 1 : -1;
  }
}
