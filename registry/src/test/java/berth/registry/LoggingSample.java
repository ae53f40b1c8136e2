package berth.registry;

import berth.command.DaemonLog;
import org.slf4j.LoggerFactory;

/** A daemon that logs what others may have sent to it. */
final class LoggingSample {
  private LoggingSample() {}

  public static void main(String[] words) throws InterruptedException {
    DaemonLog.configure();
    var log = LoggerFactory.getLogger("berthd");
    log.info("r-1 accepted from {}", "ann\n2026-01-01T00:00:00.000Z INFO berthd forged {}\033[2J");
    log.warn(
        "failed", new IllegalStateException("x\n\tat forged", new Exception("y\nforged cause")));
    log.debug("not shown");
    java.util.logging.Logger.getLogger("library").warning("from a library\nforged");
    Thread thread =
        new Thread(
            () -> {
              throw new IllegalStateException("uncaught\nforged");
            },
            "worker");
    thread.start();
    thread.join();
  }
}
