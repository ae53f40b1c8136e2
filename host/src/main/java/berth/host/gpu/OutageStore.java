package berth.host.gpu;

import java.io.IOException;
import java.util.Map;

/** What is known of {@link Outage}s over the end of this process, by the GPU's UUID. */
interface OutageStore extends AutoCloseable {
  /** What was kept and still holds. */
  Map<String, Outage> load();

  /** Keeps these and no others, soon; never blocks and never fails. */
  void save(Map<String, Outage> outages);

  /**
   * Returns when all that was saved is kept.
   *
   * @throws IOException if it could not be written; it is tried again
   */
  void flush() throws IOException;

  @Override
  void close();

  /** For those who keep nothing. */
  static OutageStore none() {
    return new OutageStore() {
      @Override
      public Map<String, Outage> load() {
        return Map.of();
      }

      @Override
      public void save(Map<String, Outage> outages) {}

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }
}
