package berth.host.lock;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Locks that are taken, guarded and freed together. Any thread may call. */
public final class HeldLocks {
  private final List<HeldLock> locks;
  private byte[] description = {};
  private Runnable lockedAnew = () -> {};
  private boolean unlocked;

  HeldLocks(List<HeldLock> locks) {
    this.locks = List.copyOf(locks);
  }

  /** Runs {@code action} whenever there are descriptors that keepers do not have yet. */
  public synchronized void whenLockedAnew(Runnable action) {
    lockedAnew = action;
  }

  /** The descriptors whose inheritance is the inheritance of the locks, by name of the file. */
  public synchronized Map<String, List<Integer>> descriptors() {
    Map<String, List<Integer>> descriptors = new LinkedHashMap<>();
    locks.forEach(lock -> descriptors.put(lock.name(), lock.descriptors()));
    return descriptors;
  }

  /** Tells other processes who holds the locks, in the lock files themselves. */
  synchronized void describe(byte[] text) {
    description = text;
    locks.forEach(lock -> lock.write(text));
  }

  /** See {@link HeldLock#lockAgain}. */
  public synchronized boolean lockAgain() {
    return unlocked || locks.stream().allMatch(HeldLock::lockAgain);
  }

  /** See {@link Guarded#lockReplaced}. */
  boolean lockReplaced() {
    boolean anew = false;
    boolean lost = false;
    Runnable action;
    synchronized (this) {
      if (unlocked) {
        return true;
      }
      for (HeldLock lock : locks) {
        HeldLock.State state = lock.lockReplaced();
        lost |= state == HeldLock.State.LOST;
        if (state == HeldLock.State.LOCKED_ANEW) {
          anew = true;
          if (description.length > 0) {
            lock.write(description);
          }
        }
      }
      action = lockedAnew;
    }
    if (anew) {
      action.run();
    }
    return !lost;
  }

  /** Frees them in their order. False if they were free already. */
  synchronized boolean unlock() {
    if (unlocked) {
      return false;
    }
    unlocked = true;
    locks.forEach(HeldLock::unlock);
    return true;
  }
}
