package berth.fuzz;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;

/** A folder, in memory where there is one, that is empty for every input. For one thread. */
public final class Scratch {
  private static final Path MEMORY = Path.of("/dev/shm");

  private final Path root;

  public Scratch() {
    try {
      root =
          Files.isWritable(MEMORY)
              ? Files.createTempDirectory(MEMORY, "berth-fuzz")
              : Files.createTempDirectory("berth-fuzz");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    Runtime.getRuntime().addShutdownHook(new Thread(this::delete));
  }

  /** The folder, without anything that the last input left in it. */
  public Path empty() throws IOException {
    clear(false);
    return root;
  }

  private void delete() {
    try {
      clear(true);
    } catch (IOException e) {
      System.err.println("cannot delete " + root + ": " + e);
    }
  }

  private void clear(boolean withRoot) throws IOException {
    Files.walkFileTree(
        root,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes)
              throws IOException {
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
              throws IOException {
            Files.delete(file);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult postVisitDirectory(Path folder, IOException failure)
              throws IOException {
            if (withRoot || !folder.equals(root)) {
              Files.delete(folder);
            }
            return FileVisitResult.CONTINUE;
          }
        });
  }
}
