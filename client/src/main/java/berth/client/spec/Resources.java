package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.Optional;

/**
 * What a run or a reservation needs of one server, and which servers may be asked for it.
 *
 * @param gpus the GPUs
 * @param ports how many TCP ports; those of a run are told in BERTH_PORTS
 * @param waitAtMost how long to wait for what is not free; empty: for ever
 * @param servers which servers may be considered
 */
public record Resources(
    GpuChoice gpus, int ports, Optional<Duration> waitAtMost, ServerChoice servers) {

  /**
   * @throws BerthException INVALID if the number of ports is negative
   */
  public Resources {
    if (ports < 0) {
      throw new BerthException(Reason.INVALID, ports + " ports asked; ask for 0 or more");
    }
  }

  /** Whether neither GPUs nor ports requested. */
  public boolean isNone() {
    return gpus.isNone() && ports == 0;
  }
}
