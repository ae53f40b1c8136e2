package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * The folder with the lock files that all processes of a machine share, under names that are older
 * than Berth: {@code tmp_lock_sysgpus} for whoever is choosing, {@code tmp_lock_gpu0} and so on for
 * whoever has chosen.
 */
public final class LockFolder {
  /** Where everybody looks for them. */
  static final Path DEFAULT = Path.of("/tmp");

  /** How the names of the GPUs' lock files begin. */
  static final String GPU_PREFIX = "tmp_lock_gpu";

  /** How the names of all lock files begin. */
  static final String PREFIX = "tmp_lock_";

  private static final int DESCRIPTION_BYTES = 512;

  // A file that had to be made may replace one that a cleaner removed while it was held. Its
  // holder, if it is of Berth's
  // making, notices at once and locks the new one; this is how long it may take.
  private static final Duration SETTLE = Duration.ofMillis(50);

  /**
   * How often a file is opened anew that somebody replaced in the moment of its locking. Who
   * replaces it more often than that does so on purpose.
   */
  static final int MOST_TRIES = 16;

  private final Path folder;

  /**
   * @throws BerthException if the folder does not exist
   */
  public LockFolder(Path folder) {
    this.folder = folder.toAbsolutePath();
    if (!Files.isDirectory(this.folder)) {
      throw new BerthException(
          Reason.UNAVAILABLE, "the lock folder " + this.folder + " does not exist");
    }
  }

  public Path path() {
    return folder;
  }

  Path system() {
    return folder.resolve("tmp_lock_sysgpus");
  }

  public Path gpu(int index) {
    return folder.resolve(GPU_PREFIX + index);
  }

  /** Where Berth's processes queue for the system lock. */
  Path queue() {
    return folder.resolve("tmp_lock_berth_queue");
  }

  /** Where Berth's processes lock ports: byte number {@code p} is port {@code p}. */
  public Path ports() {
    return folder.resolve("tmp_lock_berth_ports");
  }

  /** Locks a file if it is free. */
  public static Optional<LockFile> tryLock(Path path) {
    return lock(path, LockFile::tryLock);
  }

  /** Locks a file as soon as it is free. Empty if cancelled before that. */
  public static Optional<LockFile> lock(Path path, LockWait wait) {
    return lock(path, file -> file.lock(wait));
  }

  private static Optional<LockFile> lock(Path path, Predicate<LockFile> lock) {
    for (int tried = 0; tried < MOST_TRIES; tried++) {
      LockFile file = settled(path);
      boolean ours = false;
      try {
        if (!lock.test(file)) {
          return Optional.empty();
        }
        ours = file.isCurrent();
        if (ours) {
          return Optional.of(file);
        }
      } finally {
        if (!ours) {
          file.close();
        }
      }
    }
    throw replacedAgainAndAgain(path);
  }

  static BerthException replacedAgainAndAgain(Path path) {
    return new BerthException(Reason.UNAVAILABLE, "lock file " + path + " keeps being replaced");
  }

  /**
   * Locks parts of the file that has taken the place of one we hold. Does not wait for whom we hold
   * it against.
   */
  static Optional<LockFile> relock(Path path, List<LockFile.Range> ranges) {
    Optional<LockFile> made = makeLocked(path, ranges);
    if (made.isPresent()) {
      return made;
    }
    LockFile file = LockFile.open(path);
    boolean locked = false;
    try {
      locked = file.tryLock(ranges);
    } finally {
      if (!locked) {
        file.close();
      }
    }
    return locked ? Optional.of(file) : Optional.empty();
  }

  // Locked before it has its name, so that nobody comes in between. Empty if there is one already.
  private static Optional<LockFile> makeLocked(Path path, List<LockFile.Range> ranges) {
    Path unnamed = path.resolveSibling(".berth-" + UUID.randomUUID());
    LockFile file = LockFile.open(unnamed);
    boolean named = false;
    try {
      if (file.tryLock(ranges)) {
        Files.createLink(path, unnamed);
        named = true;
        return Optional.of(LockFile.adopt(path, file.fd()));
      }
    } catch (IOException | UnsupportedOperationException e) {
      // There is one, or this file system has no links.
    } finally {
      unnamed.toFile().delete();
      if (!named) {
        file.close();
      }
    }
    return Optional.empty();
  }

  /**
   * Makes the files of GPUs 0 to {@code count - 1} where they are missing, so that nobody has to
   * wait for them later.
   */
  public void prepare(int count) {
    LockFile.open(system()).close();
    for (int index = 0; index < count; index++) {
      LockFile.open(gpu(index)).close();
    }
  }

  /** Whether somebody is choosing GPUs at this moment. */
  boolean systemIsLocked() {
    try (LockFile file = LockFile.open(system())) {
      return file.foreign(0, 0) != null;
    }
  }

  /** Who has locked a GPU. */
  public record Holder(OptionalInt pid, String description) {}

  /** Who has locked this GPU, if anybody has. */
  public Optional<Holder> holder(int index) {
    Path path = gpu(index);
    if (!Files.exists(path)) {
      return Optional.empty();
    }
    try (LockFile file = LockFile.open(path)) {
      LockFile.Foreign foreign = file.foreign(0, 0);
      if (foreign == null) {
        return Optional.empty();
      }
      // Whoever has a pid holds a lock of the old kind, and what the file says is not about it.
      String description =
          foreign.pid().isPresent()
              ? ProcessHandle.of(foreign.pid().getAsInt())
                  .flatMap(process -> process.info().commandLine())
                  .orElse("")
              : new String(file.read(DESCRIPTION_BYTES), StandardCharsets.UTF_8).strip();
      return Optional.of(new Holder(foreign.pid(), description));
    }
  }

  /**
   * Opens a lock file; one that had to be made only after those who may have held an older one had
   * time to lock it.
   */
  static LockFile settled(Path path) {
    LockFile file = LockFile.open(path);
    if (file.created()) {
      try {
        TimeUnit.NANOSECONDS.sleep(SETTLE.toNanos());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    return file;
  }
}
