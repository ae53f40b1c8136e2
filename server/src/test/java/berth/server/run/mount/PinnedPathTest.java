package berth.server.run.mount;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class PinnedPathTest {
  @TempDir private Path folder;
  private Path work;

  @BeforeEach
  void makeFolder() throws IOException {
    work = Files.createDirectory(folder.resolve("work"));
  }

  @Test
  void staysTheSameWhateverTakesItsName() throws Exception {
    Path file = Files.writeString(work.resolve("file"), "first");
    try (PinnedPath top = PinnedPath.folder(work);
        PinnedPath pinned = top.below(Path.of("file"))) {
      Files.delete(file);
      mkfifo(file);

      assertThat(pinned.path()).isRegularFile().hasContent("first");
    }
  }

  @Test
  void aPipeIsNotWaitedForAndALinkIsNotFollowed() throws Exception {
    mkfifo(work.resolve("pipe"));
    Files.writeString(folder.resolve("secret"), "secret");
    Files.createSymbolicLink(work.resolve("link"), folder.resolve("secret"));
    try (PinnedPath top = PinnedPath.folder(work);
        PinnedPath pipe = top.below(Path.of("pipe"));
        PinnedPath link = top.below(Path.of("link"))) {
      assertThat(Files.isRegularFile(pipe.path())).isFalse();
      assertThat(Files.isRegularFile(link.path())).isFalse();
      assertThatThrownBy(() -> link.below(Path.of("x"))).isInstanceOf(NoSuchFileException.class);
      assertThatThrownBy(() -> pipe.below(Path.of("x"))).isInstanceOf(NoSuchFileException.class);
    }
  }

  @Test
  void namesAreAnyBytes() throws Exception {
    // Not UTF-8, so Java cannot say it.
    assertThat(
            new ProcessBuilder("sh", "-c", "printf x >\"$(printf 'a%%b\\377c')\"")
                .directory(work.toFile())
                .start()
                .waitFor())
        .isZero();
    Files.writeString(work.resolve("größe %2F #?"), "y");
    try (PinnedPath top = PinnedPath.folder(work);
        var names = Files.newDirectoryStream(work)) {
      for (Path name : names) {
        try (PinnedPath pinned = top.below(name.getFileName())) {
          assertThat(Files.isSameFile(pinned.path(), name)).isTrue();
        }
      }
    }
  }

  @Test
  void whatIsNotThereIsTold() throws Exception {
    Path link = Files.createSymbolicLink(folder.resolve("link"), work);

    assertThatThrownBy(() -> PinnedPath.folder(link)).isInstanceOf(NoSuchFileException.class);
    try (PinnedPath top = PinnedPath.folder(work)) {
      assertThatThrownBy(() -> top.below(Path.of("none"))).isInstanceOf(NoSuchFileException.class);
    }
  }

  private static void mkfifo(Path path) throws Exception {
    assertThat(new ProcessBuilder("mkfifo", path.toString()).start().waitFor()).isZero();
  }
}
