package berth.host.lock;

import java.nio.charset.StandardCharsets;
import java.util.List;

/** GPUs whose locks this process holds. Any thread may call. */
public final class HeldGpus implements Guarded, AutoCloseable {
  private final LockProtocol protocol;
  private final List<LockedGpu> gpus;
  private final HeldLocks locks;

  /**
   * @param gpus by ascending index
   * @param locks their locks, in the same order
   */
  public HeldGpus(LockProtocol protocol, List<LockedGpu> gpus, List<HeldLock> locks) {
    this.protocol = protocol;
    this.gpus = List.copyOf(gpus);
    this.locks = new HeldLocks(locks);
  }

  public List<LockedGpu> gpus() {
    return gpus;
  }

  boolean has(int index) {
    return gpus.stream().anyMatch(gpu -> gpu.index() == index);
  }

  public HeldLocks locks() {
    return locks;
  }

  /** Tells other processes who holds the locks, in the lock files themselves. */
  public void describe(String text) {
    locks.describe((text + "\n").getBytes(StandardCharsets.UTF_8));
  }

  /** Frees the GPUs, the lowest index first. */
  @Override
  public void close() {
    gpus.forEach(gpu -> protocol.freed(gpu.index()));
    if (locks.unlock()) {
      protocol.forget(this);
    }
  }

  @Override
  public boolean lockReplaced() {
    return locks.lockReplaced();
  }
}
