package berth.host.lock;

/**
 * A wait for the end of a process, in a thread of its own, that can be given up: what lives by a
 * process may end long before it. Any thread may close.
 */
public final class ProcessWatch implements AutoCloseable {
  // A pipe: its first end becomes readable when the second is closed.
  private final int givenUp;
  private final int giveUp;
  private boolean closed;

  private ProcessWatch(int[] pipe) {
    this.givenUp = pipe[0];
    this.giveUp = pipe[1];
  }

  /**
   * @param action run when the process has ended, unless this is closed before
   */
  public static ProcessWatch start(KnownProcess process, Runnable action) {
    int[] pipe = new int[2];
    LibC.INSTANCE.pipe2(pipe, LibC.O_CLOEXEC);
    ProcessWatch watch = new ProcessWatch(pipe);
    try {
      KnownProcess.thread(process.pid(), () -> watch.run(process, action)).start();
    } catch (RuntimeException | Error e) {
      watch.close();
      LibC.INSTANCE.close(watch.givenUp);
      throw e;
    }
    return watch;
  }

  private void run(KnownProcess process, Runnable action) {
    boolean ended;
    try {
      ended = process.awaitEnd(givenUp);
    } finally {
      LibC.INSTANCE.close(givenUp);
    }
    if (ended && end()) {
      action.run();
    }
  }

  @Override
  public void close() {
    end();
  }

  /** False if it was over already. */
  private synchronized boolean end() {
    if (closed) {
      return false;
    }
    closed = true;
    LibC.INSTANCE.close(giveUp);
    return true;
  }
}
