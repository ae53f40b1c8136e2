package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShellWordsTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        // the line | its words in <>
        "train.py --epochs 3 | <train.py><--epochs><3>",
        "`  a   b  ` | <a><b>",
        "`a~\tb~` | <a><b>",
        "a 'b c' \"d e\" | <a><b c><d e>",
        "a'b'\"c\"d | <abcd>",
        "'' \"\" | <><>",
        "a\\ b \\' \\\" \\\\ | <a b><'><\"><\\>",
        "'a\\b' '\"' | <a\\b><\">",
        "\"a\\b\" \"\\\"\" \"\\\\\" \"\\$x\" \"'\" | <a\\b><\"><\\><$x><'>",
        "`a \\~ b` | <a><b>",
        "`a\\~b` | <ab>",
        "`\"a\\~b\"` | <ab>",
        "$HOME *.py $(x) {port} #5 | <$HOME><*.py><$(x)><{port}><#5>",
        "äö 'ü ß' | <äö><ü ß>",
      })
  void splitsAsAShellDoesAndExpandsNothing(String line, String words) {
    List<String> split = ShellWords.split(line.replace('~', '\n'));

    assertThat("<" + String.join("><", split) + ">").isEqualTo(words);
  }

  @Test
  void nothingIsNoWord() {
    assertThat(ShellWords.split("")).isEmpty();
    assertThat(ShellWords.split(" \n\t")).isEmpty();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "a 'b | a ' is not closed in: a 'b",
        "a \"b\\\" | a \" is not closed in: a \"b\\\"",
        "\" | a \" is not closed in: \"",
        "a\\ | there is nothing after the last \\ in: a\\",
      })
  void refusesWhatIsLeftOpen(String line, String message) {
    assertThatThrownBy(() -> ShellWords.split(line)).hasMessage(message);
  }
}
