package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/** What somebody wants to have of a run: one pattern on each line of the input. */
class WorkFilesFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static Path work;

  @BeforeAll
  static void makeFiles() throws IOException {
    Path scratch = SCRATCH.empty();
    Files.writeString(scratch.resolve("secret"), "secret");
    work = Files.createDirectories(scratch.resolve("work/model/a/b/c")).getParent();
    work = scratch.resolve("work");
    Files.writeString(work.resolve("model/digits.h5"), "weights");
    Files.writeString(work.resolve("model/a/b/c/ab-[x].txt"), "text");
    Files.createSymbolicLink(work.resolve("out"), Path.of("../secret"));
    Files.createSymbolicLink(work.resolve("up"), Path.of(".."));
  }

  static Stream<byte[]> seeds() {
    return Stream.of(".", "model/*.h5", "**/c/a?-[[]x].txt\nup/*", "up/secret", "[!a-m]*/**/**")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  @MethodSource("seeds")
  @FuzzTest
  void sendsNothingFromOutsideOfTheWorkingFolder(byte[] data) throws Exception {
    List<String> patterns = new String(data, StandardCharsets.UTF_8).lines().toList();
    Optional<byte[]> tar = Inputs.accepted(() -> tar(patterns));
    if (tar.isPresent()) {
      try (var in = new TarArchiveInputStream(new ByteArrayInputStream(tar.get()), "UTF-8")) {
        for (TarArchiveEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
          Path named = work.resolve(entry.getName()).normalize();
          assertThat(named.startsWith(work)).as(entry.getName()).isTrue();
          assertThat(new String(in.readAllBytes(), StandardCharsets.UTF_8)).isNotEqualTo("secret");
        }
      }
    }
  }

  private static byte[] tar(List<String> patterns) throws IOException {
    ByteArrayOutputStream tar = new ByteArrayOutputStream();
    WorkFiles.tar(work, patterns, tar);
    return tar.toByteArray();
  }
}
