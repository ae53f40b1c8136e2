package berth.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileFailureTest {
  @TempDir private Path folder;

  @Test
  void namesTheFileAndWhyAsAShellDoes() throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "");

    assertThat(words(() -> Files.readString(folder.resolve("none"))))
        .isEqualTo(folder + "/none: No such file or directory");
    assertThat(words(() -> Files.createDirectory(file))).isEqualTo(file + ": File exists");
    assertThat(words(() -> Files.newDirectoryStream(file))).isEqualTo(file + ": Not a directory");
    assertThat(words(() -> Files.delete(folder))).isEqualTo(folder + ": Directory not empty");
    assertThat(words(() -> Files.writeString(file.resolve("below"), "")))
        .isEqualTo(file + "/below: Not a directory");
  }

  @Test
  void saysOfAFullDiskWhatTheKernelSays() {
    assertThat(FileFailure.words(new IOException("No space left on device")))
        .isEqualTo("No space left on device");
    assertThat(FileFailure.words(new FileSystemException("a", null, "No space left on device")))
        .isEqualTo("a: No space left on device");
  }

  @Test
  void saysSomethingOfAFailureWithoutWords() {
    assertThat(FileFailure.words(new IOException())).isEqualTo("Input/output error");
    assertThat(FileFailure.why(new NoSuchFileException("a")))
        .isEqualTo("No such file or directory");
  }

  private interface Step {
    void take() throws IOException;
  }

  private static String words(Step step) {
    try {
      step.take();
    } catch (IOException e) {
      return FileFailure.words(e);
    }
    throw new AssertionError("went well");
  }
}
