package berth.fuzz;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A folder that is the same for every input. Writing it anew through the code that usually does
 * costs several flushes and renames, so only what the last input changed is put back.
 */
public final class KeptFolder {
  /** Writes what the folder holds. */
  public interface Filling {
    void fill(Path folder) throws IOException;
  }

  private final Path root;
  private final Set<Path> folders = new HashSet<>();
  private final Map<Path, byte[]> files = new TreeMap<>();

  public KeptFolder(Filling filling) {
    try {
      root = new Scratch().empty();
      filling.fill(root);
      record();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void record() throws IOException {
    Files.walkFileTree(
        root,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
            folders.add(folder);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
              throws IOException {
            files.put(file, Files.readAllBytes(file));
            return FileVisitResult.CONTINUE;
          }
        });
  }

  /** The folder as it was filled. */
  public Path restored() throws IOException {
    deleteOthers();
    for (Path folder : folders) {
      if (!Files.isDirectory(folder)) {
        Files.createDirectories(folder);
      }
    }
    for (Map.Entry<Path, byte[]> file : files.entrySet()) {
      if (!holds(file.getKey(), file.getValue())) {
        Files.write(file.getKey(), file.getValue());
      }
    }
    return root;
  }

  private static boolean holds(Path file, byte[] content) throws IOException {
    try {
      return Arrays.equals(Files.readAllBytes(file), content);
    } catch (NoSuchFileException e) {
      return false;
    }
  }

  private void deleteOthers() throws IOException {
    Files.walkFileTree(
        root,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
              throws IOException {
            if (!files.containsKey(file) || !attributes.isRegularFile()) {
              Files.delete(file);
            }
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult postVisitDirectory(Path folder, IOException failure)
              throws IOException {
            if (!folders.contains(folder)) {
              Files.delete(folder);
            }
            return FileVisitResult.CONTINUE;
          }
        });
  }
}
