package berth.client;

import java.util.Objects;

/**
 * A run that outlives whoever started it. Both words may be kept anywhere, and made a {@code
 * DetachedRun} again in another process.
 *
 * @param server the name of its server
 * @param runId its name there
 */
public record DetachedRun(String server, String runId) {
  public DetachedRun {
    Objects.requireNonNull(server);
    Objects.requireNonNull(runId);
  }
}
