package berth.server.run;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The places in the folder of one run. */
public record RunFolder(Path path) {
  private static final Logger log = LoggerFactory.getLogger(RunFolder.class);

  /** What was asked for, as it came. */
  Path request() {
    return path.resolve("request");
  }

  /** What has become of it. */
  Path state() {
    return path.resolve("state");
  }

  /** The pipes of the program's output. It must not be able to put anything else in their place. */
  public Path io() {
    return path.resolve("io");
  }

  /** Where the start of the program is marked. The program's own. */
  public Path mark() {
    return path.resolve("mark");
  }

  /** The output. */
  Path spool() {
    return path.resolve("spool");
  }

  /** The code, and what the program leaves there. The program's own. */
  public Path work() {
    return path.resolve("work");
  }

  boolean exists() {
    return Files.exists(path);
  }

  /** Exists once the program has been started, whatever else is known. */
  public boolean started() {
    return Files.exists(mark().resolve("once"));
  }

  /** When the program was started, if that is known. */
  Optional<Instant> startedAt() {
    try {
      return Optional.of(Files.getLastModifiedTime(mark().resolve("once")).toInstant());
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  /** Deletes what only the running program needs. */
  void deletePipes() {
    delete(io());
    delete(mark());
  }

  /** Deletes everything; first what makes it a run, should this process end on the way. */
  void delete() {
    delete(state());
    delete(path);
  }

  private static void delete(Path path) {
    try {
      WorkFiles.delete(path);
    } catch (IOException e) {
      // The next start of the daemon tries again.
      log.warn("cannot delete {}: {}", path, e.toString());
    }
  }

  void create() {
    try {
      // Only this user gets in; within the container the folders below are the program's own.
      Files.createDirectories(
          path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      Files.createDirectories(spool());
      // In a container the mark is seen below the pipes.
      Files.createDirectories(io().resolve("mark"));
      for (Path open : new Path[] {mark(), work()}) {
        Files.createDirectories(open);
        Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
