package berth.client.spec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is left out of bundles. */
class IgnoreFileTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "*.h5 | model.h5, sub/deep/model.h5 | model.h5.txt, h5",
        "/data | data, data/x | sub/data, data2",
        "data/ | data/x, sub/data/x | data",
        "a/b | a/b, a/b/c | sub/a/b, a/c",
        "a/*.txt | a/x.txt | a/b/x.txt, x.txt",
        "a/**/z | a/z, a/b/z, a/b/c/z | a/b, z",
        "**/tmp | tmp, a/tmp, a/b/tmp/c | tmp2",
        "logs/** | logs/a, logs/a/b | a/logs/b",
        "log?.[ch] | log1.c, log2.h | log.c, log1.d",
        "[!a-c]x | dx | ax, bx, x",
        "# a comment~~x | x | a comment",
        "\\#x~\\!y | #x, !y | x, y",
        "*.log~!keep.log | a.log | keep.log, sub/keep.log",
        "!keep.log~*.log | a.log, keep.log | keep",
        "out~!out/keep | out/a, out/keep | keep",
        "out/*~!out/keep | out/a | out/keep",
        "x** | x, xyz | yx",
        "[x | [x | x",
      })
  void readsPatternsAsGitDoes(String text, String leftOut, String packed) {
    IgnoreFile ignored = IgnoreFile.parse(text.replace("~", "\n"));

    assertThat(leftOut.split(", ")).allMatch(path -> ignored.leavesOutFile(Path.of(path)));
    assertThat(packed.split(", ")).noneMatch(path -> ignored.leavesOutFile(Path.of(path)));
  }

  @Test
  void gitAndTheLogsOfClustersAreNeverPacked() {
    IgnoreFile none = IgnoreFile.parse("!.git\n!berth-logs\n");

    assertThat(none.leavesOutFile(Path.of(".git/config"))).isTrue();
    assertThat(none.leavesOutFile(Path.of("berth-logs/mnist-1/worker-0.log"))).isTrue();
    assertThat(none.leavesOutFile(Path.of("sub/berth-logs/x"))).isTrue();
    assertThat(none.leavesOutFile(Path.of("berth-logs"))).isFalse();
  }

  @Test
  @Timeout(30)
  void aPatternOfManyStarsTakesNoTime() {
    IgnoreFile hostile = IgnoreFile.parse("*a".repeat(200) + "b\n/" + "**/a/".repeat(200) + "b\n");

    assertThat(hostile.leavesOutFile(Path.of("a".repeat(250)))).isFalse();
    assertThat(hostile.leavesOut(Path.of("a/".repeat(300)), true)).isFalse();
  }

  @Test
  void refusesWhatIsTooLongOrNoText(@TempDir Path folder) throws Exception {
    Path file = folder.resolve(".berthignore");
    Files.write(file, new byte[] {(byte) 0xff, (byte) 0xfe});
    assertThatThrownBy(() -> IgnoreFile.of(folder)).hasMessage(file + " is not a text in UTF-8");
    Files.write(file, new byte[70_000]);
    assertThatThrownBy(() -> IgnoreFile.of(folder))
        .hasMessage(file + " has 70000 bytes, at most 64 KiB are read");
  }
}
