package berth.cli;

import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.function.IntConsumer;

/**
 * The signals of this process as calls. A shutdown hook would not do: it hears of the first one
 * only, and cannot tell which.
 */
final class Signals {
  static final int INTERRUPT = 2;

  private static final Map<String, Integer> NUMBERS =
      Map.of("HUP", 1, "INT", INTERRUPT, "TERM", 15);

  private Signals() {}

  /**
   * Calls {@code action} with the number of each SIGINT, SIGTERM and SIGHUP from now on, in a
   * thread of its own, in place of ending the process. Signals that whoever started this process
   * has it ignore, as {@code nohup} does, stay ignored.
   *
   * <p>By reflection, because the compiler warns of the class that every JVM has for this. Without
   * it a signal ends the process as usual, and the server notices that nobody listens.
   */
  static void handle(IntConsumer action) {
    try {
      Class<?> signal = Class.forName("sun.misc.Signal");
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      for (Map.Entry<String, Integer> entry : NUMBERS.entrySet()) {
        Object onSignal =
            Proxy.newProxyInstance(
                Signals.class.getClassLoader(),
                new Class<?>[] {handler},
                (proxy, method, arguments) ->
                    switch (method.getName()) {
                      case "handle" -> {
                        action.accept(entry.getValue());
                        yield null;
                      }
                      case "equals" -> proxy == arguments[0];
                      case "hashCode" -> System.identityHashCode(proxy);
                      default -> entry.getKey();
                    });
        Object name = signal.getConstructor(String.class).newInstance(entry.getKey());
        signal.getMethod("handle", signal, handler).invoke(null, name, onSignal);
      }
    } catch (ReflectiveOperationException e) {
      // As said above.
    }
  }
}
