package berth.http;

/**
 * Answers the calls of one route. Called by a thread that may wait, and by several at once; the
 * answer may also be given later, by any thread.
 */
@FunctionalInterface
public interface HttpHandler {
  /** Answers a call. What it throws before it has answered is answered instead. */
  void handle(HttpCall call) throws Exception;
}
