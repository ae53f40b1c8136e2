package berth.command;

import java.util.logging.LogManager;
import org.slf4j.bridge.SLF4JBridgeHandler;

/** The log of a daemon: one line an event, on standard error. Libraries are heard from WARN on. */
public final class DaemonLog {
  private DaemonLog() {}

  /** To be called before anything logs. What a {@code -D} option says already stays. */
  public static void configure() {
    set("showDateTime", "true");
    set("dateTimeFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX");
    set("showThreadName", "false");
    set("showShortLogName", "true");
    set("defaultLogLevel", "warn");
    set("log.berth", "info");
    set("log.berthd", "info");
    set("log.berth-registry", "info");
    // It warns of every failed attempt; whether that matters, who called it says.
    set("log.io.etcd", "error");
    LogManager.getLogManager().reset();
    SLF4JBridgeHandler.install();
  }

  private static void set(String key, String value) {
    String property = "org.slf4j.simpleLogger." + key;
    if (System.getProperty(property) == null) {
      System.setProperty(property, value);
    }
  }
}
