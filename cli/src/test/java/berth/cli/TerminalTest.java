package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class TerminalTest {
  @Test
  void showsUnicodeInALocaleWithUtf8() {
    assertThat(Terminal.showsUnicode(null, StandardCharsets.UTF_8)).isTrue();
  }

  @Test
  void showsAsciiWhereTheStartScriptReplacedALocaleWithoutUtf8() {
    assertThat(Terminal.showsUnicode("", StandardCharsets.UTF_8)).isFalse();
    assertThat(Terminal.showsUnicode("POSIX", StandardCharsets.UTF_8)).isFalse();
  }

  @Test
  void showsAsciiWhereJavaItselfHasNoUtf8() {
    assertThat(Terminal.showsUnicode(null, StandardCharsets.US_ASCII)).isFalse();
  }
}
