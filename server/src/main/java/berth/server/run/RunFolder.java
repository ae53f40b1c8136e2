package berth.server.run;

import berth.host.state.DurableFiles;
import berth.host.state.StateFolder;
import java.io.IOException;
import java.nio.file.DirectoryStream;
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

  /** What lists show of what was asked for. */
  Path request() {
    return path.resolve("request");
  }

  /** What was asked for, as it came: read only to start it. */
  Path content() {
    return path.resolve("content");
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

  /** Where the engine finds the folders that the program may see. Nobody else gets there. */
  public Path mounts() {
    return path.resolve("mounts");
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

  /** Deletes what only the start and the running program need. */
  void deleteForProgram() {
    delete(io());
    delete(mark());
    delete(mounts());
    delete(content());
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

  /** Makes the folder itself. Only this user gets in. */
  void create() throws IOException {
    StateFolder.create(path);
  }

  /** Makes what the program needs, with an empty folder for its code. */
  void createForProgram() throws IOException {
    StateFolder.create(spool());
    // In a container the mark is seen below the pipes.
    Files.createDirectories(io().resolve("mark"));
    Files.setPosixFilePermissions(io(), PosixFilePermissions.fromString("rwxr-xr-x"));
    // What an earlier start was bringing may be half there.
    WorkFiles.delete(work());
    // Within the container these are the program's own.
    for (Path open : new Path[] {mark(), work()}) {
      Files.createDirectories(open);
      Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
    }
  }

  /** Deletes records that a killed process was writing. */
  void deleteUnfinished() throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(path, DurableFiles::isUnfinished)) {
      for (Path file : files) {
        Files.deleteIfExists(file);
      }
    }
  }
}
