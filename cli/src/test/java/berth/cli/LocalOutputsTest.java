package berth.cli;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LocalOutputsTest {
  @TempDir private Path folder;

  @BeforeEach
  void aFileOfMine() throws IOException {
    Files.writeString(Files.createDirectory(folder.resolve("model")).resolve("a.h5"), "mine");
  }

  @ParameterizedTest
  @ValueSource(strings = {"model/a.h5", "./model/a.h5", "model", "model/*.h5", "*/a.h5", "**.h5"})
  void refusesToOverwriteAFile(String pattern) {
    assertThatThrownBy(() -> LocalOutputs.check(folder, List.of("log", pattern), false))
        .hasMessageContaining("--output " + pattern + ": ")
        .hasMessageEndingWith("model/a.h5 exists; use --force to overwrite");
    assertThatCode(() -> LocalOutputs.check(folder, List.of(pattern), true))
        .doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"model/b.h5", "*.h5", "other/*.h5", "[", "../x", "/work/a.h5"})
  void leavesAloneWhatIsInNobodysWay(String pattern) {
    assertThatCode(() -> LocalOutputs.check(folder, List.of(pattern), false))
        .doesNotThrowAnyException();
  }

  @Test
  void onlyTheFolderItselfMayBeMissing() {
    Path none = folder.resolve("none");
    Path file = folder.resolve("model/a.h5");

    assertThatCode(() -> LocalOutputs.check(none, List.of("log"), false))
        .doesNotThrowAnyException();
    assertThatThrownBy(() -> LocalOutputs.check(none.resolve("deep"), List.of("log"), true))
        .hasMessage("--output-dir " + none + "/deep: no folder " + none + "; create it first");
    assertThatThrownBy(() -> LocalOutputs.check(file, List.of("log"), true))
        .hasMessage("--output-dir " + file + " is not a folder");
  }
}
