package berth.client.cluster;

import berth.text.InvalidValueException;
import java.util.ArrayList;
import java.util.List;

/**
 * Splits a line into words as a shell does: by quotes, backslashes and blanks. Nothing is expanded:
 * no shell ever sees it.
 */
final class ShellWords {
  // What a backslash before it means something else in double quotes.
  private static final String ESCAPED_IN_QUOTES = "$`\"\\";

  private final String text;
  private final List<String> words = new ArrayList<>();
  private final StringBuilder word = new StringBuilder();
  private boolean inWord;
  private int at;

  private ShellWords(String text) {
    this.text = text;
  }

  /** Refuses, by InvalidValueException, a quote that is not closed. */
  static List<String> split(String text) {
    return new ShellWords(text).split();
  }

  private List<String> split() {
    while (at < text.length()) {
      char next = text.charAt(at++);
      switch (next) {
        case ' ', '\t', '\n', '\r' -> endWord();
        case '\'' -> singleQuoted();
        case '"' -> doubleQuoted();
        case '\\' -> escaped();
        default -> add(next);
      }
    }
    endWord();
    return words;
  }

  private void escaped() {
    if (at == text.length()) {
      throw new InvalidValueException("there is nothing after the last \\ in: " + text.strip());
    }
    char next = text.charAt(at++);
    // A line that goes on.
    if (next != '\n') {
      add(next);
    }
  }

  private void singleQuoted() {
    inWord = true;
    int end = text.indexOf('\'', at);
    if (end < 0) {
      throw open('\'');
    }
    word.append(text, at, end);
    at = end + 1;
  }

  private void doubleQuoted() {
    inWord = true;
    while (at < text.length()) {
      char next = text.charAt(at++);
      if (next == '"') {
        return;
      }
      if (next == '\\' && at < text.length()) {
        char after = text.charAt(at);
        if (after == '\n') {
          at++;
          continue;
        }
        if (ESCAPED_IN_QUOTES.indexOf(after) >= 0) {
          next = after;
          at++;
        }
      }
      word.append(next);
    }
    throw open('"');
  }

  private InvalidValueException open(char quote) {
    return new InvalidValueException("a " + quote + " is not closed in: " + text.strip());
  }

  private void add(char next) {
    inWord = true;
    word.append(next);
  }

  private void endWord() {
    if (inWord) {
      words.add(word.toString());
      word.setLength(0);
      inWord = false;
    }
  }
}
