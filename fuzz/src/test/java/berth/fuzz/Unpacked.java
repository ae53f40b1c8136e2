package berth.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;

/** What must hold of a folder that a stranger's tar was unpacked into. */
public final class Unpacked {
  private final Path folder;
  private long bytes;
  private int entries;

  private Unpacked(Path folder) {
    this.folder = folder;
  }

  /** A folder with a file that nothing may be written to, beside the one to unpack into. */
  public static Path beside(Path scratch) throws IOException {
    Files.writeString(scratch.resolve("secret"), "secret");
    return scratch.resolve("unpacked");
  }

  /**
   * Checks that nothing was written outside of the folder that {@link #beside} gave, and no more
   * into it than is allowed.
   */
  public static void check(Path scratch, Path folder, long mostBytes, int mostEntries)
      throws IOException {
    assertThat(scratch.resolve("secret")).hasContent("secret");
    try (var beside = Files.list(scratch)) {
      assertThat(beside.map(path -> path.getFileName().toString()).toList())
          .isSubsetOf("secret", "unpacked", "bundles");
    }
    if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    Unpacked unpacked = new Unpacked(folder);
    unpacked.walk();
    assertThat(unpacked.bytes).isLessThanOrEqualTo(mostBytes);
    assertThat(unpacked.entries).isLessThanOrEqualTo(mostEntries);
  }

  private void walk() throws IOException {
    Files.walkFileTree(
        folder,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path path, BasicFileAttributes attributes) {
            note(path);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path path, BasicFileAttributes attributes)
              throws IOException {
            note(path);
            if (attributes.isSymbolicLink()) {
              checkLink(path);
            } else {
              assertThat(attributes.isRegularFile()).as("%s is a file", path).isTrue();
              assertThat(Files.getAttribute(path, "unix:nlink")).isEqualTo(1);
              bytes += attributes.size();
            }
            return FileVisitResult.CONTINUE;
          }
        });
  }

  private void note(Path path) {
    entries++;
    assertThat(path.toString().chars().noneMatch(Character::isISOControl))
        .as("'%s' has no control characters", path)
        .isTrue();
  }

  private void checkLink(Path path) throws IOException {
    Path target = path.resolveSibling(Files.readSymbolicLink(path)).normalize();
    assertThat(target.startsWith(folder)).as("%s -> %s stays inside", path, target).isTrue();
    if (Files.exists(path)) {
      assertThat(path.toRealPath().startsWith(folder.toRealPath())).as("%s", path).isTrue();
    }
  }
}
