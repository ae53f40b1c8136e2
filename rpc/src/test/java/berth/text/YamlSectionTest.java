package berth.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.entry;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the files of services, of settings and of clusters have in common. */
class YamlSectionTest {
  private static final List<String> KEYS = List.of("a", "b", "c");

  @TempDir private Path folder;

  @Test
  void anAliasIsWhatItsAnchorNames() {
    YamlSection section = section("a: &words [x, y]\nb: *words\nc: {k: &v text}\n");

    assertThat(section.list("b")).contains(List.of("x", "y"));
    assertThat(section.map("c", Function.identity(), Function.identity()))
        .containsEntry("k", "text");
  }

  @Test
  void whatIsMergedIsOverruledByWhatIsSaid() {
    YamlSection section =
        section(
            "a: &one {x: '1', y: '1'}\nb: &two {<<: *one, y: '2', z: '2'}\nc: {z: '3', <<: *two}");

    assertThat(section.map("c", Function.identity(), Function.identity()))
        .containsOnly(entry("x", "1"), entry("y", "2"), entry("z", "3"));
  }

  @Test
  void theFirstOfSeveralThatAreMergedWins() {
    YamlSection section =
        section("a: &one {x: '1'}\nb: &two {x: '2', y: '2'}\nc: {<<: [*one, *two]}");

    assertThat(section.map("c", Function.identity(), Function.identity()))
        .containsOnly(entry("x", "1"), entry("y", "2"));
  }

  @Test
  void whatIsMergedIntoItselfAddsNothing() {
    YamlSection section = section("a: &self {<<: *self, x: '1'}\n");

    assertThat(section.map("a", Function.identity(), Function.identity())).hasSize(1);
  }

  @Test
  void aQuotedKeyIsNoMerge() {
    assertThatThrownBy(() -> section("'<<': {a: 1}"))
        .hasMessage("x.yaml:1: unknown key '<<'; known keys: a, b, c");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "a: 1~a: 2 | 2: 'a' is given twice",
        "a: 1~d: 2 | 2: unknown key 'd' (sic); known keys: a, b, c",
        "a: 1~<<: b | 2: '<<' takes what an anchor names, such as *base, or a list",
        "a: &l [1]~<<: *l | 1: '<<' takes what an anchor names, such as *base, or a list",
        "a: *none | 1: not YAML: found undefined alias none",
        "a: !b%d | 1: not YAML: Tag must not contain leading or trailing spaces.",
        "[a]: 1 | 1: a key takes a single value",
        "{a: 1}: 1 | 1: a key takes a single value",
        "a: &m {d: 1}~<<: *m | 1: unknown key 'd' (sic); known keys: a, b, c",
      })
  void tellsTheMistakeAndItsPlace(String text, String message) {
    assertThatThrownBy(() -> section(text.replace('~', '\n'))).hasMessage("x.yaml:" + message);
  }

  @Test
  void refusesWhatNoProgramTakes() {
    YamlSection section = section("a: \"x\\0y\"\nb: [\"\\0\"]\n");

    assertThatThrownBy(() -> section.value("a", Function.identity()))
        .hasMessage("x.yaml:1: 'a' has a NUL in its value");
    assertThatThrownBy(() -> section.list("b"))
        .hasMessage("x.yaml:2: a word in 'b' has a NUL in its value");
  }

  @Test
  void knowsThePlaceOfAKeyAndOfItsValue() {
    YamlSection section = section("# first\na:\n  - x\n");

    assertThat(section.place("a").orElseThrow().line()).isEqualTo(2);
    assertThat(section.get("a").orElseThrow().line()).isEqualTo(3);
    assertThat(section.place("b")).isEmpty();
    assertThat(section.get("b")).isEmpty();
  }

  @Test
  void saysWhyAFileCannotBeRead() throws IOException {
    Path file = Files.write(folder.resolve("x.yaml"), new byte[] {'a', ':', (byte) 0xff});

    assertThatThrownBy(() -> YamlValue.read(file, "file"))
        .hasMessage("cannot read the file " + file + ": it is not text in UTF-8");
  }

  private static YamlSection section(String text) {
    return YamlSection.of(
        "",
        YamlValue.parse("x.yaml", text).orElseThrow(),
        KEYS,
        key -> key.equals("d") ? " (sic)" : "");
  }
}
