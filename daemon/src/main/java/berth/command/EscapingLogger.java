package berth.command;

import berth.rpc.PlainText;
import org.slf4j.Logger;
import org.slf4j.Marker;
import org.slf4j.event.Level;
import org.slf4j.helpers.LegacyAbstractLogger;
import org.slf4j.helpers.MessageFormatter;

/**
 * Escapes what cannot be seen in messages, and in those of failures, before another logger writes
 * them: names and messages of others are logged everywhere, and none of them can forge a line.
 */
final class EscapingLogger extends LegacyAbstractLogger {
  private static final long serialVersionUID = 1;

  private final transient Logger target;

  EscapingLogger(String name, Logger target) {
    this.name = name;
    this.target = target;
  }

  @Override
  protected void handleNormalizedLoggingCall(
      Level level, Marker marker, String message, Object[] arguments, Throwable failure) {
    String text =
        PlainText.escape(String.valueOf(MessageFormatter.basicArrayFormat(message, arguments)));
    Throwable shown = failure == null ? null : PlainText.escape(failure);
    switch (level) {
      case ERROR -> target.error(text, shown);
      case WARN -> target.warn(text, shown);
      case INFO -> target.info(text, shown);
      case DEBUG -> target.debug(text, shown);
      case TRACE -> target.trace(text, shown);
    }
  }

  @Override
  protected String getFullyQualifiedCallerName() {
    return null;
  }

  @Override
  public boolean isTraceEnabled() {
    return target.isTraceEnabled();
  }

  @Override
  public boolean isDebugEnabled() {
    return target.isDebugEnabled();
  }

  @Override
  public boolean isInfoEnabled() {
    return target.isInfoEnabled();
  }

  @Override
  public boolean isWarnEnabled() {
    return target.isWarnEnabled();
  }

  @Override
  public boolean isErrorEnabled() {
    return target.isErrorEnabled();
  }
}
