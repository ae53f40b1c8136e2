package berth.command;

import berth.rpc.ExitCode;
import java.util.concurrent.CountDownLatch;

/**
 * Lets a daemon stop in order when it is told to by SIGTERM or SIGINT: the thread in {@link #await}
 * goes on, and the process ends with exit code 0 once that thread has closed this too.
 */
public final class Termination implements AutoCloseable {
  private final CountDownLatch requested = new CountDownLatch(1);
  private final CountDownLatch finished = new CountDownLatch(1);
  private final Thread hook =
      new Thread(
          () -> {
            requested.countDown();
            try {
              finished.await();
            } catch (InterruptedException e) {
              Thread.currentThread().interrupt();
            }
            // A stop that was asked for is a success; without this the JVM would report the signal.
            Runtime.getRuntime().halt(ExitCode.OK);
          },
          "termination");

  private Termination() {}

  public static Termination onSignal() {
    Termination termination = new Termination();
    Runtime.getRuntime().addShutdownHook(termination.hook);
    return termination;
  }

  /** Blocks until the process is told to stop. */
  public void await() throws InterruptedException {
    requested.await();
  }

  @Override
  public void close() {
    finished.countDown();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException e) {
      // The process is ending already, because of the signal.
    }
  }
}
