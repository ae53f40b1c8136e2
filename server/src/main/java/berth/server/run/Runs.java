package berth.server.run;

import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Reservation.Owner;
import berth.server.reservation.Reservations;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Stop;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The runs of this server, from their acceptance until they are forgotten. Any thread may call. */
public final class Runs implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Runs.class);
  private static final int MOST_UNFINISHED = 1000;
  private static final int MOST_FINISHED = 5000;
  private static final Duration STOP_GRACE = Duration.ofSeconds(2);
  private static final Duration HOUSEKEEPING = Duration.ofSeconds(30);

  /**
   * Where runs are kept, and for how long.
   *
   * @param stateFolder of the server; runs and bundles are below it
   * @param mounts folders of this machine that runs may see, as {@code /data:ro}
   * @param callerGrace how long a run that is not detached waits for its caller to come back
   * @param outputLimit bytes of each stream of output that are kept
   * @param retention how long a run is known after its end; bundles, after their last use
   */
  public record Settings(
      String serverName,
      Path stateFolder,
      Services services,
      List<String> mounts,
      Duration callerGrace,
      long outputLimit,
      Duration retention,
      long bundleLimit,
      boolean ignoreStrangers) {}

  /**
   * What this server has to do at present.
   *
   * @param unfinished the runs that have not ended, oldest first
   * @param problem why nothing can be run; empty if it can
   */
  public record Load(List<String> unfinished, Optional<String> problem) {}

  private final String serverName;
  private final RunParts parts;
  private final Bundles bundles;
  private final Duration retention;
  private final Clock clock = Clock.systemUTC();
  private final SecureRandom random = new SecureRandom();
  private final Map<String, Run> runs = new LinkedHashMap<>();
  private final RuntimeHealth health;
  private volatile boolean closed;

  private Runs(
      Settings settings,
      Reservations reservations,
      GpuMonitor gpus,
      Runtime runtime,
      Metrics metrics) {
    this.serverName = settings.serverName;
    this.health = new RuntimeHealth(runtime);
    this.retention = settings.retention;
    this.bundles =
        new Bundles(
            settings.stateFolder.resolve("bundles"),
            settings.bundleLimit,
            settings.bundleLimit * 4);
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(1, daemonThreads("run-timer"));
    timer.setRemoveOnCancelPolicy(true);
    this.parts =
        new RunParts(
            reservations,
            gpus,
            runtime,
            settings.services,
            new LaunchPlanner(
                serverName, settings.services, MountRules.parse(settings.mounts), bundles),
            new RunStore(runsBelow(settings.stateFolder)),
            new SpoolWatch(),
            timer,
            Executors.newCachedThreadPool(daemonThreads("run-worker")),
            settings.callerGrace,
            settings.outputLimit,
            new LeftOnGpus(gpus, settings.ignoreStrangers),
            new RunMetrics(metrics),
            () -> closed);
  }

  /** Where a run is kept below the state folder of a server. */
  public static RunFolder folder(Path stateFolder, String runId) {
    return new RunFolder(runsBelow(stateFolder).resolve(runId));
  }

  private static Path runsBelow(Path stateFolder) {
    return stateFolder.toAbsolutePath().resolve("runs");
  }

  /**
   * Takes up the runs of an earlier daemon, and starts to serve.
   *
   * @param readSpec reads a request as it was given to {@link #submit}
   * @throws BerthException if the state folder cannot be used
   */
  public static Runs open(
      Settings settings,
      Reservations reservations,
      GpuMonitor gpus,
      Runtime runtime,
      Function<byte[], RunSpec> readSpec,
      Metrics metrics) {
    Runs opened = new Runs(settings, reservations, gpus, runtime, metrics);
    opened.recover(readSpec);
    RunMetrics.report(opened, settings.stateFolder, metrics);
    opened
        .parts
        .timer()
        .scheduleWithFixedDelay(
            () -> opened.parts.threads().execute(opened::keepHouse),
            0,
            HOUSEKEEPING.toSeconds(),
            TimeUnit.SECONDS);
    opened
        .parts
        .timer()
        .scheduleWithFixedDelay(
            () -> opened.parts.threads().execute(opened.health::look),
            0,
            RuntimeHealth.INTERVAL.toSeconds(),
            TimeUnit.SECONDS);
    return opened;
  }

  /**
   * Takes over a run. When this returns it will be carried out, whatever happens to this process.
   *
   * @param request what is stored of it, to be read again after a restart
   * @throws BerthException if it can never be carried out here
   */
  Run submit(RunSpec spec, byte[] request) {
    synchronized (this) {
      Optional<Run> known = known(spec.requestId());
      if (known.isPresent()) {
        return known.get();
      }
    }
    String id = "run-" + HexFormat.of().toHexDigits(random.nextLong(), 10);
    RunFolder folder = parts.store().folderOf(id);
    parts.runtime().check(parts.planner().plan(id, folder, spec, Optional.empty()));
    spec.reservationId().ifPresent(parts.reservations()::check);
    parts.reservations().check(spec.gpus(), spec.ports());
    Run run;
    synchronized (this) {
      if (closed) {
        throw new BerthException(Reason.UNAVAILABLE, "this server is stopping");
      }
      Optional<Run> known = known(spec.requestId());
      if (known.isPresent()) {
        return known.get();
      }
      long unfinished = runs.values().stream().filter(other -> !other.over()).count();
      if (unfinished >= MOST_UNFINISHED) {
        throw new BerthException(
            Reason.EXHAUSTED,
            unfinished + " runs are waiting or running on " + serverName + ", as many as allowed");
      }
      RunRecord record =
          RunRecord.accepted(
              id,
              clock.instant(),
              spec.holdsSomething() ? RunRecord.Phase.QUEUED : RunRecord.Phase.PREPARING);
      parts.store().add(record, request);
      run = new Run(parts, spec, folder, record, true, OptionalLong.of(System.nanoTime()));
      runs.put(id, run);
    }
    parts.metrics().accepted();
    log.info("{} accepted from {}", id, spec.owner());
    return run;
  }

  synchronized Run find(String id) {
    Run run = runs.get(id);
    if (run == null) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no run '" + id + "' on " + serverName + ": it never was, or is forgotten");
    }
    return run;
  }

  synchronized List<Run> all() {
    return List.copyOf(runs.values());
  }

  public Load load() {
    List<String> unfinished = all().stream().filter(run -> !run.over()).map(Run::id).toList();
    return new Load(unfinished, health.problem());
  }

  void cancel(String id, Owner by, boolean force) {
    find(id).stop(new Stop(ExitReason.CANCELLED, "was cancelled by " + by), force);
  }

  /**
   * Forgets a run that has ended, and deletes all that is kept of it.
   *
   * @throws BerthException if it has not, or something of it is still to be cleaned up
   */
  void remove(String id) {
    Run run;
    synchronized (this) {
      run = find(id);
      if (!run.cleaned().isDone()) {
        throw new BerthException(
            Reason.CONFLICT,
            run.over()
                ? id + " has ended, but not everything of it is cleaned up yet"
                : id + " has not ended; it can be removed when it has");
      }
      runs.remove(id);
    }
    run.folder().delete();
    log.info("{} of {} was removed", id, run.spec().owner());
  }

  /** Whether this process is about to end. */
  boolean closed() {
    return closed;
  }

  Bundles bundles() {
    return bundles;
  }

  Services services() {
    return parts.services();
  }

  Runtime.Info runtime() {
    return parts.runtime().info();
  }

  ExecutorService threads() {
    return parts.threads();
  }

  /** Opens the output of a run that is over. */
  Spool pastOutput(Run run) {
    return new Spool(run.folder(), parts.spoolWatch());
  }

  /** Writes files of a run that is over as a tar. */
  void download(String id, List<String> paths, OutputStream out) {
    Run run = find(id);
    if (!run.over()) {
      throw new BerthException(
          Reason.CONFLICT, id + " has not ended; its files can be had when it has");
    }
    List<String> wanted = paths.isEmpty() ? run.spec().outputs() : paths;
    if (wanted.isEmpty()) {
      throw new BerthException(Reason.INVALID, "no file is named, and " + id + " named no outputs");
    }
    try {
      WorkFiles.tar(run.folder().work(), wanted, out);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Puts the files of an uploaded bundle into {@code into}, which is made if it is missing. What a
   * failed call leaves there is the caller's to delete.
   *
   * @throws BerthException INVALID if that is no digest; NOT_FOUND if there is no such bundle;
   *     UNAVAILABLE if the files cannot be written
   */
  public void unpackBundle(String digest, Path into) {
    bundles.unpack(digest, into);
  }

  /** Leaves the runs as they are, for the next daemon. */
  @Override
  public void close() {
    List<Run> all;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      all = all();
    }
    all.forEach(Run::leave);
    parts.timer().shutdownNow();
    try {
      long deadline = System.nanoTime() + STOP_GRACE.toNanos();
      for (Run run : all) {
        run.join(Duration.ofNanos(deadline - System.nanoTime()));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    parts.threads().shutdown();
    parts.spoolWatch().close();
  }

  private void recover(Function<byte[], RunSpec> readSpec) {
    List<Run> unfinished = new ArrayList<>();
    for (RunStore.Stored stored : parts.store().load()) {
      RunSpec spec;
      try {
        spec = readSpec.apply(stored.request());
      } catch (RuntimeException e) {
        log.error("{} cannot be read and is forgotten", stored.folder().path(), e);
        continue;
      }
      RunRecord record = stored.record();
      Run run =
          new Run(parts, spec, stored.folder(), record, stored.sameBoot(), OptionalLong.empty());
      runs.put(run.id(), run);
      if (record.phase() != RunRecord.Phase.CLEANED) {
        log.info("{} of {} goes on: {}", run.id(), spec.owner(), record.phase());
        unfinished.add(run);
      }
    }
    // Those who wait do so in the order in which they came.
    unfinished.forEach(Run::start);
  }

  private Optional<Run> known(String requestId) {
    return requestId.isEmpty()
        ? Optional.empty()
        : runs.values().stream()
            .filter(run -> run.spec().requestId().equals(requestId))
            .findFirst();
  }

  private void keepHouse() {
    try {
      Instant oldest = clock.instant().minus(retention);
      List<Run> past = all().stream().filter(run -> run.cleaned().isDone()).toList();
      for (int i = 0; i < past.size(); i++) {
        Run run = past.get(i);
        boolean tooMany = past.size() - i > MOST_FINISHED;
        if (tooMany || run.endedBefore(oldest)) {
          synchronized (this) {
            runs.remove(run.id());
          }
          run.folder().delete();
        }
      }
      bundles.deleteUnusedSince(oldest);
      parts.runtime().reap(this::needsItsInstance);
    } catch (RuntimeException e) {
      if (!closed) {
        log.warn("keeping house failed: {}", e.getMessage());
      }
    }
  }

  private synchronized boolean needsItsInstance(String runId) {
    Run run = runs.get(runId);
    return run != null && !run.cleaned().isDone();
  }

  private static ThreadFactory daemonThreads(String name) {
    AtomicInteger number = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
