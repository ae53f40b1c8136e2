package berth.command;

import java.util.ServiceLoader;
import java.util.logging.LogManager;
import org.slf4j.ILoggerFactory;
import org.slf4j.IMarkerFactory;
import org.slf4j.LoggerFactory;
import org.slf4j.bridge.SLF4JBridgeHandler;
import org.slf4j.spi.MDCAdapter;
import org.slf4j.spi.SLF4JServiceProvider;

/**
 * The log of a daemon: one line an event, on standard error, and the traces of failures. Libraries
 * are heard from WARN on. Whatever is logged, by whomever, has no line of its own making: see
 * {@link EscapingLogger}.
 */
public final class DaemonLog implements SLF4JServiceProvider {
  private final SLF4JServiceProvider simple =
      ServiceLoader.load(SLF4JServiceProvider.class).findFirst().orElseThrow();

  /** For SLF4J, which makes the one it is told of by {@link #configure}. */
  public DaemonLog() {}

  /** To be called before anything logs. What a {@code -D} option says already stays. */
  public static void configure() {
    set("slf4j.provider", DaemonLog.class.getName());
    // Else it says at each start that it was told of a provider.
    set("slf4j.internal.verbosity", "WARN");
    simple("showDateTime", "true");
    simple("dateTimeFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX");
    simple("showThreadName", "false");
    simple("showShortLogName", "true");
    simple("defaultLogLevel", "warn");
    simple("log.berth", "info");
    simple("log.berthd", "info");
    simple("log.berth-registry", "info");
    // It warns of every failed attempt; whether that matters, who called it says.
    simple("log.io.etcd", "error");
    LogManager.getLogManager().reset();
    SLF4JBridgeHandler.install();
    Thread.setDefaultUncaughtExceptionHandler(
        (thread, failure) ->
            LoggerFactory.getLogger(DaemonLog.class)
                .error("the thread {} has ended", thread.getName(), failure));
  }

  private static void simple(String key, String value) {
    set("org.slf4j.simpleLogger." + key, value);
  }

  private static void set(String property, String value) {
    if (System.getProperty(property) == null) {
      System.setProperty(property, value);
    }
  }

  @Override
  public void initialize() {
    simple.initialize();
  }

  @Override
  public ILoggerFactory getLoggerFactory() {
    return name -> new EscapingLogger(name, simple.getLoggerFactory().getLogger(name));
  }

  @Override
  public IMarkerFactory getMarkerFactory() {
    return simple.getMarkerFactory();
  }

  @Override
  public MDCAdapter getMDCAdapter() {
    return simple.getMDCAdapter();
  }

  @Override
  public String getRequestedApiVersion() {
    return simple.getRequestedApiVersion();
  }
}
