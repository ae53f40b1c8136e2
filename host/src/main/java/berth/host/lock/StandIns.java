package berth.host.lock;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntConsumer;
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
public final class StandIns implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(StandIns.class);

  // Shorter than those wait who have made a new lock file, see LockFolder.
  private static final long OTHERS_GUARD_MILLIS = 20;

  private final LockFolder folder;
  private final Retries retries;
  private final IntPredicate ours;
  private final Runnable pause;
  // The files that stood under their names at the last look.
  private final Map<Integer, LockFile> seen = new HashMap<>();
  private final Set<LockWait> waits = ConcurrentHashMap.newKeySet();

  /**
   * @param ours whether this process itself holds a GPU
   */
  StandIns(LockFolder folder, Retries retries, IntPredicate ours) {
    this(folder, retries, ours, StandIns::letOthersGuard);
  }

  /**
   * @param pause returns when other processes have guarded their locks
   */
  StandIns(LockFolder folder, Retries retries, IntPredicate ours, Runnable pause) {
    this.folder = folder;
    this.retries = retries;
    this.ours = ours;
    this.pause = pause;
  }

  /** Looks whether the lock files of GPUs 0 to {@code count - 1} are still the same. */
  synchronized void look(int count) {
    // What perhaps another berthd holds, which guards its locks itself.
    List<Integer> unclear = new ArrayList<>();
    for (int index = 0; index < Math.max(count, seen.size()); index++) {
      each(index, gpu -> look(gpu, unclear));
    }
    if (!unclear.isEmpty()) {
      // Once for all of them: whoever has made new files waits no longer for many than for one.
      pause.run();
      unclear.forEach(index -> each(index, this::lookAgain));
    }
  }

  // What is wrong with one file is no reason to leave the others alone. It is looked at again soon.
  private static void each(int index, IntConsumer action) {
    try {
      action.accept(index);
    } catch (RuntimeException e) {
      log.warn("cannot watch the lock of GPU {}: {}", index, e.getMessage());
    }
  }

  private void look(int index, List<Integer> unclear) {
    LockFile known = seen.get(index);
    if (known != null && known.isCurrent()) {
      return;
    }
    // What is ours we guard ourselves, and that first of all.
    LockFile.Foreign holder = known == null || ours.test(index) ? null : known.foreign(0, 0);
    if (holder == null) {
      see(index);
    } else if (holder.pid().isEmpty()) {
      unclear.add(index);
    } else {
      standIn(index, known);
    }
  }

  private void lookAgain(int index) {
    Path path = folder.gpu(index);
    if (!Files.exists(path) || LockFile.isProvenFree(path)) {
      standIn(index, seen.get(index));
    } else {
      see(index);
    }
  }

  private void see(int index) {
    Path path = folder.gpu(index);
    Optional<LockFile> newer =
        Files.exists(path) ? Optional.of(LockFile.open(path)) : Optional.empty();
    LockFile older = seen.remove(index);
    if (older != null) {
      older.close();
    }
    newer.ifPresent(file -> seen.put(index, file));
  }

  private static void letOthersGuard() {
    try {
      Thread.sleep(OTHERS_GUARD_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void standIn(int index, LockFile held) {
    Path path = folder.gpu(index);
    Optional<LockFile> anew = LockFolder.relock(path, List.of(LockFile.Range.WHOLE));
    if (anew.isEmpty()) {
      log.error(
          "lock file {} was removed while a process held it, and another has locked the new one, so"
              + " the GPU may be in use twice",
          path);
      see(index);
      return;
    }
    log.warn(
        "lock file {} was removed while another process held it; locked the new one in its place",
        path);
    seen.remove(index);
    LockWait wait = new LockWait();
    waits.add(wait);
    retries.later(() -> awaitEnd(held, wait, anew.get()));
    see(index);
  }

  private void awaitEnd(LockFile held, LockWait wait, LockFile anew) {
    try {
      held.lock(wait);
    } catch (RuntimeException e) {
      log.error("cannot wait for the end of the lock {}", held.path(), e);
    } finally {
      anew.close();
      held.close();
      waits.remove(wait);
    }
  }

  @Override
  public synchronized void close() {
    waits.forEach(LockWait::cancel);
    seen.values().forEach(LockFile::close);
    seen.clear();
  }
}
