package berth.host.gpu;

import java.time.Duration;
import java.util.Optional;

/**
 * Where readings of GPUs come from. One thread calls it; every call may take as long as the driver
 * takes.
 */
public interface GpuSource extends AutoCloseable {
  /** Whether the GPUs are simulated, so that people can be told. */
  boolean simulated();

  /** Reads everything once. Does not fail: what could not be read is part of the reading. */
  GpuReading read();

  /** Waits for the next critical error of any GPU, at most {@code timeout}. */
  Optional<Xid> awaitXid(Duration timeout) throws InterruptedException;

  @Override
  void close();
}
