package berth.server.run;

import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Reservations;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.BooleanSupplier;

/**
 * What all runs share.
 *
 * @param callerGrace how long a run waits for its caller to come back
 * @param outputLimit bytes of each stream of output that are kept
 */
record RunParts(
    Reservations reservations,
    GpuMonitor gpus,
    Runtime runtime,
    Services services,
    LaunchPlanner planner,
    RunStore store,
    SpoolWatch spoolWatch,
    ScheduledExecutorService timer,
    ExecutorService threads,
    Duration callerGrace,
    long outputLimit,
    LeftOnGpus leftOnGpus,
    RunMetrics metrics,
    BooleanSupplier stopping) {

  /** Whether this process is about to end, and runs are left to the next. */
  boolean closed() {
    return stopping.getAsBoolean();
  }
}
