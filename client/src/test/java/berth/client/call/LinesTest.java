package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What {@code RunLinesTest} does not show: lines that are too long. */
class LinesTest {
  private final List<String> seen = new ArrayList<>();

  @Test
  void cutsWhatIsTooLong() {
    Lines lines = lines(5);
    lines.add(bytes("abcdefghijkl\nmnopq\nrstuvw"));
    assertThat(seen).containsExactly("abcde+", "fghij+", "kl", "mnopq", "rstuv+");

    lines.end();
    assertThat(seen).last().isEqualTo("w+");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 11, 100})
  void cutsNoCharacterHoweverTheBytesCome(int piece) {
    String text = "aä€😀b😀😀ßßß€€€x";
    Lines lines = lines(7);
    byte[] all = bytes(text);
    for (int i = 0; i < all.length; i += piece) {
      lines.add(Arrays.copyOfRange(all, i, Math.min(all.length, i + piece)));
    }
    lines.end();

    assertThat(String.join("", seen).replace("+", "")).isEqualTo(text);
    assertThat(seen).allSatisfy(line -> assertThat(bytes(line)).hasSizeLessThanOrEqualTo(8));
  }

  @Test
  void bytesThatAreNoTextSurviveToo() {
    List<byte[]> pieces = new ArrayList<>();
    Lines lines = new Lines(4, (line, ended) -> pieces.add(line));
    byte[] noText = {-128, -128, -128, -128, -128, -1, -64, -64, -1, 7};
    lines.add(noText);
    lines.end();

    assertThat(joined(pieces)).isEqualTo(noText);
  }

  @Test
  void aLineMayBeLong() {
    Lines lines = lines(Integer.MAX_VALUE);
    String line = "x".repeat(100_000);
    lines.add(bytes(line.substring(0, 70_000)));
    lines.add(bytes(line.substring(70_000) + "\n"));

    assertThat(seen).containsExactly(line);
  }

  private Lines lines(int longest) {
    return new Lines(
        longest,
        (line, ended) -> seen.add(new String(line, StandardCharsets.UTF_8) + (ended ? "" : "+")));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] joined(List<byte[]> pieces) {
    byte[] all = new byte[0];
    for (byte[] piece : pieces) {
      int before = all.length;
      all = Arrays.copyOf(all, before + piece.length);
      System.arraycopy(piece, 0, all, before, piece.length);
    }
    return all;
  }
}
