package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PlainTextTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "\n",
        "\r",
        "\t",
        "\0",
        "\033[2J",
        "\u007f",
        "\u0085",
        "\u009b31m",
        "\u00ad",
        "\u061c",
        "\u200b",
        "\u200f",
        "\u2028",
        "\u2029",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\ud800",
        "\udc00",
        "\udb40\udc41",
        "\uf453"
      })
  void whatCannotBeSeenIsRefusedAndCleaned(String hidden) {
    String text = "ann" + hidden;
    assertThatThrownBy(() -> PlainText.check("the owner", text, 100))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessageStartingWith("the owner must be plain text, but contains U+")
        .satisfies(e -> assertThat(e.getMessage()).isEqualTo(PlainText.clean(e.getMessage())));
    assertThat(PlainText.clean(text)).startsWith("ann?");
    assertThat(PlainText.escape(text)).startsWith("ann\\").doesNotContain(hidden);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "ann", "Jürgen Groß", "学習", "emoji 🚀", "a \"quoted\" \\ word"})
  void whatPeopleWriteStaysAsItIs(String text) {
    assertThat(PlainText.check("the purpose", text, 100)).isEqualTo(text);
    assertThat(PlainText.clean(text)).isEqualTo(text);
    assertThat(PlainText.escape(text)).isEqualTo(text);
    assertThat(PlainText.cleanLines(text)).isEqualTo(text);
  }

  @Test
  void whatIsTooLongIsRefused() {
    assertThatThrownBy(() -> PlainText.check("the name", "x".repeat(201), 200))
        .hasMessage("the name has 201 characters, 200 are allowed");
  }

  @Test
  void theEscapesSayWhatWasThere() {
    assertThat(PlainText.escape("a\nb\u009bc\ud83d\ude80\udb40\udc41"))
        .isEqualTo("a\\nb\\u009bc🚀\\udb40\\udc41");
  }

  @Test
  void linesKeepTheirEndsAndOurColoursOnly() {
    assertThat(PlainText.cleanLines("\033[31mred\033[0m\na\tb\033[2J\033]0;title\007\r"))
        .isEqualTo("\033[31mred\033[0m\na\tb?[2J?]0;title??");
  }

  @Test
  void aFailureIsPrintedWithoutLinesOfOthers() {
    var failure = new IllegalStateException("x\n\tat forged", new Exception("y\nCaused by: z"));
    failure.addSuppressed(new Exception("s\nq"));
    StringWriter printed = new StringWriter();
    PlainText.escape(failure).printStackTrace(new PrintWriter(printed, true));
    assertThat(printed.toString().lines())
        .contains(
            "java.lang.IllegalStateException: x\\n\\tat forged",
            "Caused by: java.lang.Exception: y\\nCaused by: z",
            "\tSuppressed: java.lang.Exception: s\\nq")
        .anyMatch(line -> line.contains("PlainTextTest"))
        .doesNotContain("\tat forged", "Caused by: z");
  }

  @Test
  void failuresThatCauseEachOtherArePrinted() {
    var first = new Exception("first");
    first.initCause(new Exception("second", first));
    assertThat(PlainText.escape(first)).hasToString("java.lang.Exception: first");
  }
}
