package berth.server.run;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.reservation.Reservation.Owner;
import berth.server.reservation.Reservations;
import berth.server.reservation.RunHold;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Stop;
import berth.v1.RunCodeRequest;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The runs of this server, from their acceptance until they are forgotten. Any thread may call. */
public final class Runs implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Runs.class);
  private static final long CONTENT_MEMORY = 64 << 20;
  private static final int MOST_ENDED = 20_000;
  private static final int WAITING_CALLERS = 16;
  private static final Duration CALLERS_PATIENCE = Duration.ofSeconds(10);
  private static final int BUNDLE_CHECKS = 4;
  private static final Duration STOP_GRACE = Duration.ofSeconds(2);
  private static final Duration HOUSEKEEPING = Duration.ofSeconds(30);

  /**
   * Where runs are kept, and for how long.
   *
   * @param stateFolder of the server; runs and bundles are below it
   * @param mounts folders of this machine that runs may see
   * @param supervisors users that no run may be
   * @param callerGrace how long a run that is not detached waits for its caller to come back
   * @param outputLimit bytes of each stream of output that are kept
   * @param retention how long a run is known after its end; bundles, after their last use
   * @param storage how much of the disk they may take
   */
  public record Settings(
      String serverName,
      Path stateFolder,
      Services services,
      MountRules mounts,
      UidRange supervisors,
      Duration callerGrace,
      long outputLimit,
      Duration retention,
      long bundleLimit,
      Storage storage,
      boolean ignoreStrangers) {}

  /**
   * How much of the disk runs may take.
   *
   * @param keptBytes of runs that are over and of bundles, all together
   * @param leastFree bytes of the disk below which nothing new is taken; empty: 1 GiB, or a
   *     twentieth of the disk if that is less
   * @param workLimit bytes of the folder of one run; empty: any number
   * @param unfinished runs that may wait or run at the same time
   * @param unfinishedOfOne the same of one owner
   * @param requestBytes of all requests that wait or run
   */
  public record Storage(
      long keptBytes,
      Optional<Long> leastFree,
      Optional<Long> workLimit,
      int unfinished,
      int unfinishedOfOne,
      long requestBytes) {}

  /**
   * A run that was accepted, with its caller's hold on it.
   *
   * @param unhold to be run when its client disconnected
   */
  record Submitted(Run run, Runnable unhold) {}

  /**
   * What this server has to do at present.
   *
   * @param unfinished the runs that have not ended, oldest first
   * @param problem why nothing can be run; empty if it can
   */
  public record Load(List<String> unfinished, Optional<String> problem) {}

  private final String serverName;
  private final RunContext context;
  private final Bundles bundles;
  private final Clock clock = Clock.systemUTC();
  private final SecureRandom random = new SecureRandom();
  private final RunIndex runs = new RunIndex();
  private final Admission admission;
  private final Map<String, CompletableFuture<Run>> arriving = new HashMap<>();
  private final Map<String, Runnable> places = new ConcurrentHashMap<>();
  private final AtomicLong nextNumber = new AtomicLong();
  private final Retention kept;
  private final RuntimeHealth health;
  private final ExecutorService bundleChecks =
      Executors.newFixedThreadPool(BUNDLE_CHECKS, DaemonThreads.numbered("bundle-check"));
  private final AtomicBoolean keepingHouse = new AtomicBoolean();
  private volatile boolean closed;

  private Runs(
      Settings settings,
      Reservations reservations,
      GpuMonitor gpus,
      RunEngine runtime,
      DurableFiles durable,
      ThreadFactory runThreads,
      Vitals vitals,
      Metrics metrics) {
    this.serverName = settings.serverName;
    this.health = new RuntimeHealth(runtime);
    Storage storage = settings.storage;
    this.admission =
        new Admission(
            serverName,
            new Admission.Limits(
                storage.unfinished, storage.unfinishedOfOne, storage.requestBytes));
    StateDisk disk = new StateDisk(serverName, settings.stateFolder, storage.leastFree);
    this.bundles =
        new Bundles(
            settings.stateFolder.resolve("bundles"),
            new Bundles.Limits(settings.bundleLimit, settings.bundleLimit * 4, storage.keptBytes),
            disk,
            durable);
    this.kept = new Retention(settings.retention, storage.keptBytes, MOST_ENDED, bundles);
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(1, DaemonThreads.numbered("run-timer"));
    timer.setRemoveOnCancelPolicy(true);
    this.context =
        new RunContext(
            reservations,
            gpus,
            runtime,
            settings.services,
            new LaunchPlanner(
                serverName, settings.services, settings.mounts, settings.supervisors, bundles),
            new RunStore(runsBelow(settings.stateFolder), durable),
            disk,
            new ContentMemory(CONTENT_MEMORY, WAITING_CALLERS, CALLERS_PATIENCE),
            new SpoolWatch(vitals),
            timer,
            Executors.newCachedThreadPool(DaemonThreads.numbered("run-worker")),
            runThreads,
            settings.callerGrace,
            settings.outputLimit,
            storage.workLimit,
            new LeftOnGpus(gpus, settings.ignoreStrangers),
            new RunMetrics(metrics),
            this::cleaned,
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
   * @param durable not closed before this is
   * @throws BerthException if the state folder cannot be used
   */
  public static Runs open(
      Settings settings,
      Reservations reservations,
      GpuMonitor gpus,
      RunEngine runtime,
      DurableFiles durable,
      Vitals vitals,
      Metrics metrics) {
    return open(settings, reservations, gpus, runtime, durable, Thread::new, vitals, metrics);
  }

  /** As the other one, with threads that a test can withhold. */
  static Runs open(
      Settings settings,
      Reservations reservations,
      GpuMonitor gpus,
      RunEngine runtime,
      DurableFiles durable,
      ThreadFactory runThreads,
      Vitals vitals,
      Metrics metrics) {
    Runs opened =
        new Runs(settings, reservations, gpus, runtime, durable, runThreads, vitals, metrics);
    opened.recover();
    RunMetrics.report(opened, settings.stateFolder, metrics);
    opened
        .context
        .timer()
        .scheduleWithFixedDelay(
            () -> opened.inBackground(opened::keepHouse),
            0,
            HOUSEKEEPING.toSeconds(),
            TimeUnit.SECONDS);
    opened
        .context
        .timer()
        .scheduleWithFixedDelay(
            () -> opened.inBackground(opened.health::look),
            0,
            RuntimeHealth.INTERVAL.toSeconds(),
            TimeUnit.SECONDS);
    return opened;
  }

  /**
   * Does something later in the background, unless this is closed by then.
   *
   * @return does without it
   */
  Runnable later(Duration delay, Runnable task) {
    try {
      Future<?> timer =
          context.timer().schedule(() -> inBackground(task), delay.toNanos(), TimeUnit.NANOSECONDS);
      return () -> timer.cancel(false);
    } catch (RejectedExecutionException e) {
      return () -> {};
    }
  }

  // What a timer throws would be the last that it does.
  private void inBackground(Runnable task) {
    try {
      context
          .threads()
          .execute(
              () -> {
                try {
                  task.run();
                } catch (RuntimeException e) {
                  log.error("unexpected failure", e);
                }
              });
    } catch (RejectedExecutionException e) {
      // Closed.
    } catch (Error e) {
      log.error("cannot start a thread", e);
    }
  }

  /**
   * Takes over a run and starts it. When this returns it is on disk and will be carried out,
   * whatever happens to this process. Unless it is detached, its caller holds it.
   *
   * @throws BerthException if it can never be carried out here, or there is no room for it
   */
  Submitted submit(RunCodeRequest message) {
    CompletableFuture<Run> mine = new CompletableFuture<>();
    Optional<CompletableFuture<Run>> first = arrive(message.getRequestId(), mine);
    Run run;
    Runnable unhold = () -> {};
    if (first.isPresent()) {
      run = awaitFirst(first.get());
      unhold = run.spec().detached() ? unhold : run.hold();
    } else {
      try {
        run = accept(message);
      } catch (RuntimeException | Error e) {
        synchronized (this) {
          arriving.remove(message.getRequestId());
        }
        mine.completeExceptionally(e);
        throw e;
      }
      // It is on disk, so it is carried out whatever fails from here on.
      try {
        // Before it starts, or it might end for want of a caller.
        unhold = run.spec().detached() ? unhold : run.hold();
      } finally {
        synchronized (this) {
          arriving.remove(message.getRequestId());
        }
        mine.complete(run);
        run.start();
      }
    }
    return new Submitted(run, unhold);
  }

  /** Who came first with the same request, if anybody did. */
  private synchronized Optional<CompletableFuture<Run>> arrive(
      String requestId, CompletableFuture<Run> mine) {
    if (closed) {
      throw new BerthException(Reason.UNAVAILABLE, "this server is stopping");
    }
    if (requestId.isEmpty()) {
      return Optional.empty();
    }
    Optional<CompletableFuture<Run>> known =
        runs.ofRequest(requestId).map(CompletableFuture::completedFuture);
    return known.or(() -> Optional.ofNullable(arriving.putIfAbsent(requestId, mine)));
  }

  private static Run awaitFirst(CompletableFuture<Run> first) {
    try {
      return first.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof BerthException refused
          ? new BerthException(refused.reason(), refused.getMessage(), refused)
          : e;
    }
  }

  private Run accept(RunCodeRequest message) {
    health
        .problem(context.threads())
        .ifPresent(
            why -> {
              throw new BerthException(Reason.UNAVAILABLE, why);
            });
    // Both may take a while, for which nobody else should wait.
    List<Launch.Bind> binds = context.planner().binds(RunMessages.mounts(message));
    Runnable giveBack = context.memory().takeSoon(message.getSerializedSize());
    try {
      RunRequest request = RunRequest.of(message);
      RequestedRun spec = request.spec();
      String id = "run-" + HexFormat.of().toHexDigits(random.nextLong(), 10);
      RunFolder folder = context.store().folderOf(id);
      context.runtime().check(context.planner().plan(id, folder, spec, binds, Optional.empty()));
      spec.reservationId().ifPresent(context.reservations()::check);
      context.reservations().check(spec.gpus(), spec.ports(), spec.waitAtMost());
      context.disk().check("a run");
      Runnable place = admission.admit(spec.owner().toString(), request.bytes());
      Run run;
      try {
        RunRecord record =
            RunRecord.accepted(
                id,
                spec.requestId(),
                nextNumber.getAndIncrement(),
                clock.instant(),
                spec.holdsSomething() ? RunRecord.Phase.QUEUED : RunRecord.Phase.PREPARING);
        context.store().add(record, request);
        run = Run.accepted(context, folder, record, request.shown());
        places.put(id, place);
        runs.add(run);
      } catch (RuntimeException | Error e) {
        // Its caller is told that there is none.
        places.remove(id);
        place.run();
        folder.delete();
        throw e;
      }
      context.metrics().accepted();
      log.info("{} accepted from {}", id, spec.owner());
      return run;
    } finally {
      giveBack.run();
    }
  }

  private void cleaned(Run run) {
    runs.cleaned(run);
    Optional.ofNullable(places.remove(run.id())).ifPresent(Runnable::run);
  }

  Run find(String id) {
    return runs.find(id)
        .orElseThrow(
            () ->
                new BerthException(
                    Reason.NOT_FOUND,
                    "there is no run '"
                        + id
                        + "' on "
                        + serverName
                        + ": unknown or already deleted"));
  }

  RunIndex index() {
    return runs;
  }

  List<Run> all() {
    return runs.all();
  }

  /** Those that have not ended and the newest of the others, newest first. */
  List<Run> recent(int mostEnded) {
    List<Run> recent = new ArrayList<>(runs.newest(Optional.empty(), Run::over, mostEnded));
    runs.unfinished().stream().filter(run -> !run.over()).forEach(recent::add);
    recent.sort(Comparator.comparingLong(Run::number).reversed());
    return recent;
  }

  public Load load() {
    List<String> unfinished =
        runs.unfinished().stream().filter(run -> !run.over()).map(Run::id).toList();
    return new Load(unfinished, health.problem());
  }

  void cancel(String id, Owner by, boolean force) {
    String who = by.user().isEmpty() ? "" : " by " + (by.host().isEmpty() ? by.user() : by);
    find(id).stop(new Stop(ExitReason.CANCELLED, "cancelled" + who), force);
  }

  /**
   * Forgets a run that has ended, and deletes all that is kept of it.
   *
   * @throws BerthException if it has not, or something of it is still to be cleaned up
   */
  void remove(String id) {
    Run run = find(id);
    if (!run.cleaned().isDone()) {
      throw new BerthException(
          Reason.CONFLICT,
          run.over()
              ? id + " has ended, but is not cleaned up yet"
              : id + " has not ended; cancel it first");
    }
    String owner = run.spec().owner().toString();
    delete(run);
    log.info("{} of {} was removed", id, owner);
  }

  private void delete(Run run) {
    runs.remove(run);
    run.discard();
    run.folder().delete();
  }

  /** Whether this process is about to end. */
  boolean closed() {
    return closed;
  }

  Bundles bundles() {
    return bundles;
  }

  Services services() {
    return context.services();
  }

  RunEngine.Info runtime() {
    return context.runtime().info();
  }

  ExecutorService threads() {
    return context.threads();
  }

  /** Where uploaded bundles are checked, a few at a time: what they unpack to may be large. */
  Executor bundleChecks() {
    return bundleChecks;
  }

  /** Opens the output of a run that is over. */
  Spool pastOutput(Run run) {
    Spool spool = new Spool(run.folder(), context.spoolWatch());
    long written = run.view().record().ended().map(RunRecord.Ended::outputBytes).orElse(0L);
    if (spool.total() < written) {
      log.error(
          "{} bytes of output are left in {}, there were {}",
          spool.total(),
          run.folder().spool(),
          written);
    }
    return spool;
  }

  /** Writes files of a run as a tar; as they are just now if its program works. */
  void download(String id, List<String> paths, OutputStream out) {
    Run run = find(id);
    // Until then its code is being brought.
    if (!run.over() && run.view().started().isEmpty()) {
      throw new BerthException(
          Reason.CONFLICT, id + " has not started; its files can be copied once it has");
    }
    List<String> wanted = paths.isEmpty() ? run.spec().outputs() : paths;
    if (wanted.isEmpty()) {
      throw new BerthException(Reason.INVALID, "no file is named, and " + id + " named no outputs");
    }
    if (!Files.exists(run.folder().work())) {
      throw new BerthException(Reason.NOT_FOUND, id + " never started, and has no files");
    }
    try {
      WorkFiles.tar(run.folder().work(), wanted, out);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Puts the files of an uploaded bundle of a cluster into {@code into}, which is made if it is
   * missing. What a failed call leaves there is the caller's to delete.
   *
   * @throws BerthException INVALID if that is no digest; NOT_FOUND if there is no such bundle;
   *     UNAVAILABLE if the files cannot be written, or there is too little room for them
   */
  public void unpackBundle(String digest, Path into) {
    context.disk().check("a cluster");
    bundles.unpack(digest, into);
  }

  /** Leaves the runs as they are, for the next daemon. */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    List<Run> all = runs.unfinished();
    all.forEach(Run::leave);
    context.timer().shutdownNow();
    try {
      long deadline = System.nanoTime() + STOP_GRACE.toNanos();
      for (Run run : all) {
        run.join(Duration.ofNanos(deadline - System.nanoTime()));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    context.threads().shutdown();
    bundleChecks.shutdown();
    context.spoolWatch().close();
  }

  private void recover() {
    RunStore.Loaded loaded = context.store().load();
    List<Run> unfinished = new ArrayList<>();
    for (RunStore.Stored stored : loaded.runs()) {
      RunStore.Stored known = stored.damaged() ? numbered(stored) : stored;
      Run run = Run.recovered(context, known);
      nextNumber.accumulateAndGet(run.number() + 1, Math::max);
      runs.add(run);
      if (!run.cleaned().isDone()) {
        String owner = run.spec().owner().toString();
        places.put(run.id(), admission.count(owner, context.store().contentBytes(stored.folder())));
        log.info("{} of {} continues: {}", run.id(), owner, known.record().phase());
        unfinished.add(run);
      }
    }
    loaded.unreadable().forEach(folder -> inBackground(() -> giveUp(folder)));
    // Those who wait do so in the order in which they came.
    unfinished.forEach(Run::start);
  }

  // A run whose number is lost comes after all others.
  private RunStore.Stored numbered(RunStore.Stored stored) {
    RunRecord record = stored.record();
    return new RunStore.Stored(
        stored.folder(),
        RunRecord.accepted(
            record.id(),
            record.requestId(),
            nextNumber.getAndIncrement(),
            record.accepted(),
            record.phase()),
        stored.spec(),
        stored.sameBoot(),
        true);
  }

  // Nobody can go on with it, and nobody may start it again: what may still run of it ends.
  private void giveUp(RunFolder folder) {
    String id = folder.path().getFileName().toString();
    try {
      context.runtime().signal(id, "KILL");
      context.runtime().remove(id);
    } catch (RuntimeException e) {
      log.warn("{}: cannot clean up, retrying: {}", id, e.toString());
      if (!closed) {
        context
            .timer()
            .schedule(
                () -> inBackground(() -> giveUp(folder)),
                RuntimeHealth.INTERVAL.toSeconds(),
                TimeUnit.SECONDS);
      }
      return;
    }
    context.reservations().heldBy(id, () -> {}).ifPresent(RunHold::release);
    RunStore.setAside(folder.path());
  }

  // Never twice at once: to look at the disk may take longer than it is until the next time.
  void keepHouse() {
    if (!keepingHouse.compareAndSet(false, true)) {
      return;
    }
    try {
      List<Run> over = new ArrayList<>();
      Set<String> needed = new HashSet<>();
      for (Run run : all()) {
        if (run.cleaned().isDone()) {
          over.add(run);
        } else if (run.spec().code() instanceof RequestedRun.Code.Bundle bundle) {
          needed.add(bundle.digest());
        }
      }
      kept.clear(over, needed, clock.instant(), this::delete);
      context.runtime().reap(this::needsItsInstance);
    } catch (RuntimeException e) {
      if (!closed) {
        log.warn("cleaning up failed: {}", e.getMessage());
      }
    } finally {
      keepingHouse.set(false);
    }
  }

  private boolean needsItsInstance(String runId) {
    return runs.find(runId).map(run -> !run.cleaned().isDone()).orElse(false);
  }
}
