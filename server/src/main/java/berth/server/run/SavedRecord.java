package berth.server.run;

import berth.rpc.BerthException;
import java.nio.file.Path;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.UnaryOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The record of one run, in memory and on disk. Changes are made one after the other, and may wait
 * for the disk; who only reads never does. Any thread may call; hold no lock that readers need.
 */
final class SavedRecord {
  private static final Logger log = LoggerFactory.getLogger(SavedRecord.class);

  private final RunStore store;
  private final Executor threads;
  private final ReentrantLock changing = new ReentrantLock();
  private volatile RunRecord current;
  private volatile RunRecord onDisk;
  private boolean failing;
  private boolean discarded;

  /**
   * @param current as it is on disk
   */
  SavedRecord(RunStore store, Executor threads, RunRecord current) {
    this.store = store;
    this.threads = threads;
    this.current = current;
    this.onDisk = current;
  }

  RunRecord get() {
    return current;
  }

  /** Whether the newest record is on disk. */
  boolean saved() {
    return onDisk == current;
  }

  /**
   * What may not be before it is written down.
   *
   * @throws BerthException UNAVAILABLE if it cannot be; nothing has changed then
   */
  void write(UnaryOperator<RunRecord> change) {
    changing.lock();
    try {
      RunRecord next = change.apply(current);
      save(next);
      current = next;
    } finally {
      changing.unlock();
    }
  }

  /**
   * What is so whether or not it can be written down: a full disk must keep no run from ending. It
   * is on disk before anybody sees it, if the disk allows.
   *
   * @param flushed what must be on disk before it is
   */
  void note(UnaryOperator<RunRecord> change, Path... flushed) {
    changing.lock();
    try {
      RunRecord next = change.apply(current);
      if (next != current) {
        saveIfPossible(next, flushed);
        current = next;
      }
    } finally {
      changing.unlock();
    }
  }

  /** What is seen at once, and on disk soon. */
  void noteSoon(UnaryOperator<RunRecord> change) {
    changing.lock();
    try {
      current = change.apply(current);
    } finally {
      changing.unlock();
    }
    try {
      threads.execute(this::saveAgain);
    } catch (RejectedExecutionException e) {
      // The process ends, and the next one finds out.
    } catch (Error e) {
      log.error("no thread at present", e);
      saveAgain();
    }
  }

  /** Tries to write down what is not; says whether all is. */
  boolean saveAgain() {
    changing.lock();
    try {
      if (!saved()) {
        saveIfPossible(current);
      }
      return saved();
    } finally {
      changing.unlock();
    }
  }

  /** Nothing is written from now on: its folder goes. */
  void discard() {
    changing.lock();
    try {
      discarded = true;
    } finally {
      changing.unlock();
    }
  }

  private void saveIfPossible(RunRecord next, Path... flushed) {
    try {
      save(next, flushed);
      failing = false;
    } catch (BerthException e) {
      if (!failing) {
        log.warn("the record of {} cannot be written yet: {}", next.id(), e.getMessage());
      }
      failing = true;
    }
  }

  private void save(RunRecord next, Path... flushed) {
    if (!discarded) {
      store.save(next, flushed);
    }
    onDisk = next;
  }
}
