package berth.server.reservation;

import berth.rpc.BerthException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.IntPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Holds GPUs for those who cannot guard their locks themselves: {@code berth lock}, services that
 * use {@code fasteners}. If somebody removes or replaces a lock file that one of them holds, this
 * process locks the new file until the old one is free. What happened before this process started,
 * or happens after its end, it cannot see.
 *
 * <p>One thread looks; any thread may close.
 */
final class StandIns implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(StandIns.class);

  // Shorter than those wait who have made a new lock file, see LockFolder.
  private static final long OTHERS_GUARD_MILLIS = 20;

  private final LockFolder folder;
  private final ExecutorService threads;
  private final IntPredicate ours;
  // The files that stood under their names at the last look.
  private final Map<Integer, LockFile> seen = new HashMap<>();
  private final Set<LockWait> waits = ConcurrentHashMap.newKeySet();

  /**
   * @param ours whether this process itself holds a GPU
   */
  StandIns(LockFolder folder, ExecutorService threads, IntPredicate ours) {
    this.folder = folder;
    this.threads = threads;
    this.ours = ours;
  }

  /** Looks whether the lock files of GPUs 0 to {@code count - 1} are still the same. */
  synchronized void look(int count) {
    for (int index = 0; index < Math.max(count, seen.size()); index++) {
      try {
        look(folder.gpu(index), index);
      } catch (BerthException e) {
        log.warn("{}", e.getMessage());
      }
    }
  }

  private void look(Path path, int index) {
    LockFile known = seen.get(index);
    if (known != null && known.isCurrent()) {
      return;
    }
    if (known != null && needsStandIn(path, known) && !ours.test(index)) {
      seen.remove(index);
      standIn(path, known);
    } else if (known != null) {
      seen.remove(index).close();
    }
    if (Files.exists(path)) {
      seen.put(index, LockFile.open(path));
    }
  }

  private static boolean needsStandIn(Path path, LockFile known) {
    LockFile.Foreign holder = known.foreign(0, 0);
    if (holder == null) {
      return false;
    }
    if (holder.pid().isEmpty()) {
      // Perhaps another berthd, which guards its locks itself.
      try {
        Thread.sleep(OTHERS_GUARD_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return !Files.exists(path) || LockFile.isProvenFree(path);
    }
    return true;
  }

  private void standIn(Path path, LockFile held) {
    Optional<LockFile> anew = LockFolder.relock(path, List.of(LockFile.Range.WHOLE));
    if (anew.isEmpty()) {
      log.error(
          "somebody removed the lock file {} while somebody else held it, and a third has locked a"
              + " new one: two may be using the same",
          path);
      held.close();
      return;
    }
    log.warn(
        "somebody removed the lock file {} while somebody else held it; locked it for them", path);
    LockWait wait = new LockWait();
    waits.add(wait);
    try {
      threads.execute(
          () -> {
            try {
              held.lock(wait);
            } finally {
              anew.get().close();
              held.close();
              waits.remove(wait);
            }
          });
    } catch (RejectedExecutionException e) {
      // The process ends.
      anew.get().close();
      held.close();
    }
  }

  @Override
  public synchronized void close() {
    waits.forEach(LockWait::cancel);
    seen.values().forEach(LockFile::close);
    seen.clear();
  }
}
