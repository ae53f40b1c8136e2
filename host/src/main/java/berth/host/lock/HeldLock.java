package berth.host.lock;

import berth.rpc.BerthException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A lock file, or parts of one, that this process holds whatever becomes of the file: if somebody
 * removes or replaces it, the new one is locked as well. Guarded by its owner.
 */
public final class HeldLock {
  private static final Logger log = LoggerFactory.getLogger(HeldLock.class);

  /** Whether what others find under the name of the file is locked by us. */
  enum State {
    LOCKED,
    /** Yes, since this moment: keepers do not have the new descriptor yet. */
    LOCKED_ANEW,
    /** No, and it cannot be: somebody else was faster, or there is no folder for it. */
    LOST
  }

  private final Path path;
  private final List<LockFile.Range> ranges;
  private final List<LockFile> files;
  private boolean lost;

  /**
   * @param files open files that stood under this name one after the other, locked in these ranges
   */
  public HeldLock(Path path, List<LockFile.Range> ranges, List<LockFile> files) {
    this.path = path;
    this.ranges = List.copyOf(ranges);
    this.files = new ArrayList<>(files);
  }

  /** A file that is locked as a whole. */
  static HeldLock whole(LockFile file) {
    return new HeldLock(file.path(), List.of(LockFile.Range.WHOLE), List.of(file));
  }

  String name() {
    return path.getFileName().toString();
  }

  /** The descriptors whose inheritance is the inheritance of the lock. */
  List<Integer> descriptors() {
    return files.stream().map(LockFile::fd).toList();
  }

  /** Tells other processes who holds it, in the file itself. */
  void write(byte[] description) {
    for (LockFile file : files) {
      try {
        file.write(description);
      } catch (BerthException e) {
        // The lock is what counts; without room on the disk nobody learns who has it.
        log.warn("{}", e.getMessage());
      }
    }
  }

  /**
   * Takes all locks once more, which changes nothing unless somebody has freed them. False if
   * somebody else has one of them.
   */
  boolean lockAgain() {
    return files.stream().allMatch(file -> file.tryLock(ranges));
  }

  /**
   * Locks the file that has taken the place of ours, if there is one. The old one stays locked too,
   * for those who have it open.
   */
  State lockReplaced() {
    if (files.stream().anyMatch(LockFile::isCurrent)) {
      return State.LOCKED;
    }
    String why = "another process has locked the new one, so the GPU may be in use twice";
    try {
      Optional<LockFile> file = LockFolder.relock(path, ranges);
      if (file.isPresent()) {
        files.add(file.get());
        lost = false;
        log.warn("lock file {} was removed while held; locked the new one", path);
        return State.LOCKED_ANEW;
      }
    } catch (BerthException e) {
      why = e.getMessage();
    }
    if (!lost) {
      lost = true;
      log.error("lock file {} was removed while held: {}", path, why);
    }
    return State.LOST;
  }

  /** Frees it, for keepers too. */
  void unlock() {
    for (LockFile file : files) {
      // Unlocked by hand, because a keeper may have inherited the descriptor.
      file.unlock();
      file.close();
    }
  }
}
