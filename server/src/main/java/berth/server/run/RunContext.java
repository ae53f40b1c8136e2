package berth.server.run;

import berth.host.gpu.GpuMonitor;
import berth.server.reservation.Reservations;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * What all runs share.
 *
 * @param runThreads one for each run that is carried out
 * @param callerGrace how long a run waits for its caller to come back
 * @param outputLimit bytes of each stream of output that are kept
 * @param workLimit bytes that the folder of a run may have; empty: any number
 * @param onCleaned told of each run of which nothing is left but its output
 */
record RunContext(
    Reservations reservations,
    GpuMonitor gpus,
    RunEngine runtime,
    Services services,
    LaunchPlanner planner,
    RunStore store,
    StateDisk disk,
    ContentMemory memory,
    SpoolWatch spoolWatch,
    ScheduledExecutorService timer,
    ExecutorService threads,
    ThreadFactory runThreads,
    Duration callerGrace,
    long outputLimit,
    Optional<Long> workLimit,
    LeftOnGpus leftOnGpus,
    RunMetrics metrics,
    Consumer<Run> onCleaned,
    BooleanSupplier stopping) {

  /** Whether this process is about to end, and runs are left to the next. */
  boolean closed() {
    return stopping.getAsBoolean();
  }

  /** What fails because this process ends is no failure of a run: the next process goes on. */
  void leaveIfClosed() throws InterruptedException {
    if (closed()) {
      throw new InterruptedException();
    }
  }
}
