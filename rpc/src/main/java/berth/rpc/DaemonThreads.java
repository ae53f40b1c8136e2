package berth.rpc;

import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/** Threads that do not keep their process alive. */
public final class DaemonThreads {
  private DaemonThreads() {}

  /** One that has not begun. */
  public static Thread unstarted(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  /** One that has begun. */
  public static Thread start(Runnable work, String name) {
    Thread thread = unstarted(work, name);
    thread.start();
    return thread;
  }

  /** Any number, all of this name. */
  public static ThreadFactory named(String name) {
    return work -> unstarted(work, name);
  }

  /** Any number, named {@code NAME-1}, {@code NAME-2} and so on. */
  public static ThreadFactory numbered(String name) {
    AtomicInteger number = new AtomicInteger();
    return work -> unstarted(work, name + "-" + number.incrementAndGet());
  }
}
