package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The files of a package as they were unpacked, one on each line of the input: {@code d PATH} is a
 * folder, {@code f PATH} a file, {@code l PATH} a link to what is not of the package, {@code x
 * PATH} a file that nobody may read.
 */
class PackageTreeFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final int MOST = 100;

  static Stream<byte[]> seeds() {
    return Stream.of(
            "f cluster.json\nf files-0.tar\nd script-1\nx script-1/watch.sh\n",
            "f cluster.json\nl files-0.tar\n",
            "d a/b/c\nf a/b/c/d\n",
            "d script-0\nl script-0/a\n",
            "")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  @MethodSource("seeds")
  @FuzzTest
  void hasNoLinksAndNoDepthsOrIsRefusedWithASentence(byte[] data) throws Exception {
    Path scratch = SCRATCH.empty();
    Path secret = Files.writeString(scratch.resolve("secret"), "secret");
    Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("---------"));
    Path top = Files.createDirectory(scratch.resolve("package"));
    new String(data, StandardCharsets.UTF_8).lines().limit(MOST).forEach(line -> make(top, line));

    boolean kept =
        Inputs.accepted(
                () -> {
                  PackageTree.keep(top, OptionalInt.empty());
                  return top;
                })
            .isPresent();

    // Also of what a link leads to nothing is changed.
    assertThat(Files.getPosixFilePermissions(secret)).isEqualTo(Set.of());
    if (kept) {
      List<Path> all;
      try (Stream<Path> found = Files.walk(top)) {
        all = found.filter(path -> !path.equals(top)).toList();
      }
      for (Path path : all) {
        assertThat(top.relativize(path).getNameCount()).isLessThanOrEqualTo(2);
        assertThat(Files.isSymbolicLink(path)).as(path.toString()).isFalse();
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(path)))
            .startsWith("r");
      }
    }
  }

  // What cannot be made was not unpacked either.
  private static void make(Path top, String line) {
    if (line.length() < 3) {
      return;
    }
    try {
      Path path = top.resolve(line.substring(2)).normalize();
      if (!path.startsWith(top) || Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
        return;
      }
      // No link is followed by those who unpack.
      for (Path above = path.getParent(); !above.equals(top); above = above.getParent()) {
        if (Files.isSymbolicLink(above)) {
          return;
        }
      }
      Files.createDirectories(path.getParent());
      switch (line.charAt(0)) {
        case 'd' -> Files.createDirectory(path);
        case 'l' -> Files.createSymbolicLink(path, top.resolveSibling("secret"));
        case 'x' ->
            Files.setPosixFilePermissions(
                Files.createFile(path), PosixFilePermissions.fromString("---------"));
        default -> Files.createFile(path);
      }
    } catch (IOException | InvalidPathException e) {
      // Such as a name that is too long.
    }
  }
}
