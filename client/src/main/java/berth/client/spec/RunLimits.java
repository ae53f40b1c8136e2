package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.Optional;

/**
 * What a run may use.
 *
 * @param time how long it may run
 * @param warning a signal ahead of the end of that time
 * @param idle how long it may leave its GPUs unused
 * @param stopGrace time between SIGTERM and SIGKILL; empty: ten seconds
 * @param memoryBytes the most memory that it may use, and the least that must be free; 0: any
 * @param cpus the most processors that it may use; 0: any
 * @param processes the most processes and threads; 0: any
 * @param sharedMemoryBytes size of /dev/shm; 0: the service's or the engine's
 */
public record RunLimits(
    Optional<Duration> time,
    Optional<Warning> warning,
    Optional<IdleLimit> idle,
    Optional<Duration> stopGrace,
    long memoryBytes,
    double cpus,
    long processes,
    long sharedMemoryBytes) {

  /**
   * @throws BerthException INVALID if a number makes no sense, or there is a warning and no time
   */
  public RunLimits {
    check(memoryBytes >= 0, "memory must not be negative: " + memoryBytes);
    check(sharedMemoryBytes >= 0, "shared memory must not be negative: " + sharedMemoryBytes);
    check(cpus >= 0 && Double.isFinite(cpus), cpus + " CPUs asked");
    check(processes >= 0, "the number of processes must not be negative: " + processes);
    check(
        warning.isEmpty() || time.isPresent(),
        "a signal before the time limit requires a time limit");
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }
}
