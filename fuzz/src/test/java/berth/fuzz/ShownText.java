package berth.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

/** What must hold of text that others see: in tables, on terminals, in logs. */
public final class ShownText {
  private ShownText() {}

  /** Fails if {@code text} has a character that is nothing to see. */
  public static void check(String what, String text) {
    assertThat(text.codePoints().noneMatch(ShownText::isHidden))
        .as("%s '%s' has nothing but characters to see", what, text)
        .isTrue();
  }

  private static boolean isHidden(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.CONTROL,
          Character.FORMAT,
          Character.LINE_SEPARATOR,
          Character.PARAGRAPH_SEPARATOR,
          Character.SURROGATE,
          Character.PRIVATE_USE ->
          true;
      default -> false;
    };
  }
}
