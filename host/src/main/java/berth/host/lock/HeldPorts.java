package berth.host.lock;

import java.util.List;

/** Ports that a reservation holds. Any thread may call. */
public final class HeldPorts implements Guarded, AutoCloseable {
  private final List<Integer> ports;
  private final HeldLocks locks;
  private final Runnable freed;

  /**
   * @param lock none if the locks are not this process's
   * @param freed run when they are free again
   */
  HeldPorts(List<Integer> ports, List<HeldLock> lock, Runnable freed) {
    this.ports = List.copyOf(ports);
    this.locks = new HeldLocks(lock);
    this.freed = freed;
  }

  public List<Integer> ports() {
    return ports;
  }

  public HeldLocks locks() {
    return locks;
  }

  @Override
  public boolean lockReplaced() {
    return locks.lockReplaced();
  }

  @Override
  public void close() {
    if (locks.unlock()) {
      freed.run();
    }
  }
}
