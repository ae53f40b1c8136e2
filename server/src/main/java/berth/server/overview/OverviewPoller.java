package berth.server.overview;

import berth.host.gpu.GpuMonitor;
import berth.rpc.DaemonThreads;
import berth.server.cluster.ClusterMessages;
import berth.server.cluster.Clusters;
import berth.server.gpu.GpuMessages;
import berth.server.reservation.ReservationMessages;
import berth.server.reservation.Reservations;
import berth.server.run.RunMessages;
import berth.server.run.Runs;
import berth.v1.RecentRuns;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks at all parts of this server twice a second, in one thread, whatever the number of those who
 * watch; and not at all while nobody does. Any thread may call.
 */
public final class OverviewPoller implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(OverviewPoller.class);
  private static final Duration LOOK = Duration.ofMillis(500);
  private static final int MOST_ENDED_RUNS = 30;

  private final Supplier<OverviewSnapshot> view;
  private final Set<Runnable> watchers = ConcurrentHashMap.newKeySet();
  private final ScheduledExecutorService thread =
      Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("lookout"));
  private volatile OverviewSnapshot newest = OverviewSnapshot.NONE;
  private boolean failed;

  OverviewPoller(Supplier<OverviewSnapshot> view, Duration interval) {
    this.view = view;
    thread.scheduleWithFixedDelay(
        this::look, interval.toNanos(), interval.toNanos(), TimeUnit.NANOSECONDS);
  }

  /** Looks at the parts of a server. */
  public static OverviewPoller over(
      String serverName, GpuMonitor gpus, Reservations reservations, Runs runs, Clusters clusters) {
    GpuMessages gpuMessages = new GpuMessages(serverName);
    ReservationMessages reservationMessages = new ReservationMessages(serverName);
    RunMessages runMessages = new RunMessages(serverName);
    return new OverviewPoller(
        () ->
            new OverviewSnapshot(
                gpuMessages.report(gpus.newest(), gpus.nowNanos()),
                OverviewSnapshot.timeless(reservationMessages.overview(reservations.overview())),
                RecentRuns.newBuilder()
                    .addAllRuns(runMessages.recent(runs, MOST_ENDED_RUNS))
                    .build(),
                ClusterMessages.list(clusters)),
        LOOK);
  }

  /** What was seen last; {@link Parts#NONE} if nobody has watched lately. */
  OverviewSnapshot newest() {
    return newest;
  }

  /** Calls {@code watcher} after every look. Run the result to end that. */
  Runnable watch(Runnable watcher) {
    watchers.add(watcher);
    thread.execute(this::look);
    return () -> watchers.remove(watcher);
  }

  private void look() {
    if (watchers.isEmpty()) {
      // Whoever comes next is told nothing old.
      newest = OverviewSnapshot.NONE;
      return;
    }
    try {
      newest = view.get().since(newest);
      failed = false;
      watchers.forEach(Runnable::run);
    } catch (RuntimeException | Error e) {
      // The next look may be better, and there would be none after a failure. Said once, not twice
      // a second.
      if (!failed) {
        log.warn("cannot read the state of this server", e);
      }
      failed = true;
    }
  }

  /** Looks no more. */
  @Override
  public void close() {
    thread.shutdownNow();
  }
}
