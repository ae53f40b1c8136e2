package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Lifetime;
import berth.server.reservation.Reservation;
import berth.server.reservation.ReservationListener;
import berth.server.reservation.ReservationRequest;
import berth.server.reservation.RunHold;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import berth.server.run.Runtime.Exit;
import berth.server.run.Runtime.Pull;
import berth.server.run.Runtime.Running;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The life of one run, from its acceptance until nothing is left of it but its output. One thread
 * goes through it, in {@link #carryOut}; a restarted daemon goes through it again, and finds at
 * each step what the earlier one has done. Any thread may call the rest.
 */
final class Run {
  private static final Logger log = LoggerFactory.getLogger(Run.class);
  private static final Duration USUAL_OUTPUT = Duration.ofMillis(500);
  private static final Duration LAST_OUTPUT = Duration.ofSeconds(10);
  private static final Duration REMOVE_AGAIN = Duration.ofSeconds(1);
  private static final Duration SAVE_AGAIN = Duration.ofSeconds(1);
  private static final Duration LOOK_AGAIN = Duration.ofMillis(200);
  private static final long PEAK_EVERY_SECONDS = 2;

  /**
   * A run at one moment.
   *
   * @param started its start, also before that is noted if it has printed something
   * @param ahead requests before it, while it is queued
   * @param pull the newest progress, while its image is fetched
   * @param heldBack why its GPUs are not free although it is over
   * @param settled whether it is over and its GPUs are free, or it is known why they are not
   */
  record View(
      RunRecord record,
      Optional<Started> started,
      OptionalInt ahead,
      Optional<Reservation> reservation,
      Optional<Pull> pull,
      String heldBack,
      boolean settled) {}

  private final RunParts parts;
  // Without the content of its files once nothing can start it any more: runs are kept for long.
  private volatile RunSpec spec;
  private final RunFolder folder;
  private final boolean sameBoot;
  private final OptionalLong acceptedNanos;
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private final List<Future<?>> timers = new ArrayList<>();
  private final CompletableFuture<Void> cleaned = new CompletableFuture<>();

  private volatile RunRecord record;
  // Whether the record on disk is older.
  private boolean unsaved;
  private OptionalInt ahead = OptionalInt.empty();
  private Optional<Reservation> reservation = Optional.empty();
  private Optional<Pull> pull = Optional.empty();
  private String heldBack = "";
  private OptionalLong peakMemory = OptionalLong.empty();
  private Optional<BerthException> failure = Optional.empty();
  private Optional<Spool> spool = Optional.empty();
  private Optional<Running> starting = Optional.empty();
  private Optional<Started> seenToRun = Optional.empty();
  private Runnable leaveQueue = () -> {};
  private Runnable unattend = () -> {};
  private long inLineNanos;
  private long countedOutput;
  private OptionalLong exitNanos = OptionalLong.empty();
  private boolean ending;
  private volatile boolean forced;
  private int holders;
  private Optional<Future<?>> abandonment = Optional.empty();
  private Thread thread;

  /**
   * @param sameBoot false for a run that a reboot of the machine has ended
   * @param acceptedNanos when this process accepted it; empty if an earlier one did
   */
  Run(
      RunParts parts,
      RunSpec spec,
      RunFolder folder,
      RunRecord record,
      boolean sameBoot,
      OptionalLong acceptedNanos) {
    this.parts = parts;
    this.spec = record.phase() == Phase.CLEANED ? spec.withoutContent() : spec;
    this.folder = folder;
    this.record = record;
    this.sameBoot = sameBoot;
    this.acceptedNanos = acceptedNanos;
    if (record.phase() == Phase.CLEANED) {
      cleaned.complete(null);
    }
  }

  String id() {
    return record.id();
  }

  RunSpec spec() {
    return spec;
  }

  RunFolder folder() {
    return folder;
  }

  synchronized View view() {
    boolean over = record.phase().isAtLeast(Phase.ENDED);
    return new View(
        record,
        record.started().or(() -> seenToRun),
        ahead,
        reservation,
        pull,
        heldBack,
        over && (record.phase() == Phase.CLEANED || !spec.holdsSomething() || !heldBack.isEmpty()));
  }

  /** Why it failed before its start, as its caller is to be told. */
  synchronized Optional<BerthException> failure() {
    return failure;
  }

  synchronized boolean over() {
    return record.phase().isAtLeast(Phase.ENDED);
  }

  boolean endedBefore(Instant time) {
    return record.ended().map(ended -> ended.at().isBefore(time)).orElse(false);
  }

  /** Completes when nothing is left of it but its output and files. */
  CompletableFuture<Void> cleaned() {
    return cleaned;
  }

  /** Runs {@code listener} whenever something has changed, until the result is run. */
  Runnable listen(Runnable listener) {
    listeners.add(listener);
    return () -> listeners.remove(listener);
  }

  /** Its output while it is not over; readers of what is over open it themselves. */
  synchronized Optional<Spool> liveOutput() {
    return over() ? Optional.empty() : spool;
  }

  /** Starts to carry it out, or to go on with it; once. */
  synchronized void start() {
    if (thread != null) {
      return;
    }
    thread = new Thread(this::carryOut, "run-" + record.id());
    thread.setDaemon(true);
    if (!spec.detached()) {
      watchCaller();
    }
    thread.start();
  }

  /** Leaves it as it is, for the next daemon to find. */
  void leave() {
    synchronized (this) {
      if (thread != null) {
        thread.interrupt();
      }
      timers.forEach(timer -> timer.cancel(false));
      abandonment.ifPresent(timer -> timer.cancel(false));
    }
    changed();
  }

  /** Waits a little for the thread that {@link #leave} told to go. */
  void join(Duration atMost) throws InterruptedException {
    Thread running;
    synchronized (this) {
      running = thread;
    }
    if (running != null) {
      running.join(Math.max(1, atMost.toMillis()));
    }
    spool.ifPresent(Spool::close);
  }

  /**
   * A caller listens who keeps it alive, if it is not detached. Run the result when it has gone.
   */
  synchronized Runnable hold() {
    holders++;
    abandonment.ifPresent(timer -> timer.cancel(false));
    abandonment = Optional.empty();
    return this::unhold;
  }

  private synchronized void unhold() {
    holders--;
    if (!spec.detached()) {
      watchCaller();
    }
  }

  private synchronized void watchCaller() {
    if (holders == 0 && !over() && abandonment.isEmpty() && !parts.closed()) {
      abandonment =
          Optional.of(
              parts
                  .timer()
                  .schedule(
                      this::abandoned, parts.callerGrace().toMillis(), TimeUnit.MILLISECONDS));
    }
  }

  private void abandoned() {
    synchronized (this) {
      if (holders > 0 || over() || parts.closed()) {
        return;
      }
    }
    stop(new Stop(ExitReason.CANCELLED, "its caller has gone"), false);
  }

  /**
   * Orders it to end.
   *
   * @param force without any grace
   * @throws BerthException if it is over
   */
  void stop(Stop order, boolean force) {
    boolean running;
    synchronized (this) {
      if (over()) {
        throw new BerthException(Reason.CONFLICT, record.id() + " has ended already");
      }
      if (record.stop().isEmpty()) {
        note(record.stopping(order));
        log.info("{} is to end: {}", record.id(), order.message());
      }
      // A program may print, and be cancelled for that, before its start is noted.
      forced |= force;
      running = record.phase() == Phase.RUNNING;
    }
    leaveQueue.run();
    if (running) {
      endProgram(force);
    }
  }

  private void carryOut() {
    try {
      Optional<RunHold> hold = Optional.empty();
      if (!record.phase().isAtLeast(Phase.ENDED)) {
        Ended end;
        try {
          long asked = System.nanoTime();
          hold = reserve();
          inLineNanos = System.nanoTime() - asked;
          if (hold.isPresent()) {
            // Early enough, so that a short run need not wait for a sample at its end.
            unattend = parts.gpus().attend();
          }
          launch(hold);
          end = awaitEnd(hold);
        } catch (BerthException e) {
          leaveIfClosed();
          end = failed(e);
        } catch (RuntimeException e) {
          leaveIfClosed();
          log.error("{} failed unexpectedly", record.id(), e);
          end = failed(new BerthException(Reason.INTERNAL, "the server failed unexpectedly", e));
        }
        finish(end);
      }
      cleanUp(hold.or(() -> parts.reservations().heldBy(record.id(), () -> {})));
    } catch (InterruptedException e) {
      // The daemon stops, and the next one goes on.
    } catch (RuntimeException e) {
      if (!parts.closed()) {
        log.error("{} failed unexpectedly", record.id(), e);
      }
    } finally {
      unattend.run();
    }
  }

  // What fails because this process ends is no failure of the run.
  private void leaveIfClosed() throws InterruptedException {
    if (parts.closed()) {
      throw new InterruptedException();
    }
  }

  /** Gets the GPUs and ports; waits in line for them if it must. */
  private Optional<RunHold> reserve() throws InterruptedException {
    Runnable ending =
        () ->
            parts
                .timer()
                .execute(
                    () ->
                        stopUnlessOver(
                            new Stop(ExitReason.CANCELLED, "its reservation has ended")));
    Optional<RunHold> hold = parts.reservations().heldBy(record.id(), ending);
    if (hold.isEmpty() && record.phase().isAtLeast(Phase.PREPARING) && spec.holdsSomething()) {
      // Made for GPUs that may be another's by now.
      if (!folder.started()) {
        remove();
      }
      if (folder.started()) {
        return Optional.empty();
      }
    }
    if (hold.isEmpty() && spec.reservationId().isPresent()) {
      hold =
          Optional.of(parts.reservations().hold(spec.reservationId().get(), record.id(), ending));
    }
    if (hold.isEmpty() && spec.needsReservation()) {
      hold = Optional.of(awaitGrant(ending));
    }
    synchronized (this) {
      ahead = OptionalInt.empty();
      reservation = hold.map(RunHold::reservation);
      if (!record.phase().isAtLeast(Phase.PREPARING)) {
        save(record.at(Phase.PREPARING));
      }
    }
    changed();
    checkStopped();
    return hold;
  }

  // Its keeper is gone, so somebody else may have its GPUs: it must not run on.
  private void endIfItStillRuns() throws InterruptedException {
    Launch launch = parts.planner().plan(record.id(), folder, spec, Optional.empty());
    // Was started before, so this only looks. A keeper ends with the program, and nothing is lost
    // then.
    boolean runs = parts.runtime().start(launch).pid().isPresent();
    if (runs && record.stop().isEmpty()) {
      log.error("{} has lost the locks of its GPUs; ending it", record.id());
      synchronized (this) {
        note(
            record.stopping(
                new Stop(
                    ExitReason.SERVER_LOST,
                    "the locks of its GPUs were lost while berthd was not running")));
      }
    }
  }

  private RunHold awaitGrant(Runnable ending) throws InterruptedException {
    CompletableFuture<Reservation> granted = new CompletableFuture<>();
    Runnable leave =
        parts
            .reservations()
            .reserve(
                new ReservationRequest(
                    spec.gpus(),
                    spec.ports(),
                    spec.waitAtMost(),
                    new Lifetime.OfRun(record.id()),
                    spec.owner(),
                    spec.name(),
                    ""),
                new Line(granted));
    synchronized (this) {
      leaveQueue =
          () -> {
            if (granted.completeExceptionally(stopped())) {
              leave.run();
            }
          };
    }
    if (record.stop().isPresent()) {
      leaveQueue.run();
    }
    try {
      return parts.reservations().hold(await(granted).id(), record.id(), ending);
    } finally {
      synchronized (this) {
        leaveQueue = () -> {};
      }
    }
  }

  private static <T> T await(CompletableFuture<T> future) throws InterruptedException {
    try {
      return future.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BerthException expected) {
        throw expected;
      }
      throw new CompletionException(e.getCause());
    }
  }

  /** Told how the request fares in the line. */
  private final class Line implements ReservationListener {
    private final CompletableFuture<Reservation> granted;

    Line(CompletableFuture<Reservation> granted) {
      this.granted = granted;
    }

    @Override
    public void queued(int before) {
      synchronized (Run.this) {
        ahead = OptionalInt.of(before);
      }
      changed();
    }

    @Override
    public void granted(Reservation got) {
      if (!granted.complete(got)) {
        // It has been stopped in the same moment.
        parts
            .timer()
            .execute(() -> parts.reservations().hold(got.id(), record.id(), () -> {}).release());
      }
    }

    @Override
    public void failed(BerthException why) {
      granted.completeExceptionally(why);
    }

    @Override
    public void ended() {}
  }

  /** Brings code and image, and starts the program; finds what an earlier daemon has done of it. */
  private void launch(Optional<RunHold> hold) throws InterruptedException {
    synchronized (this) {
      spool = Optional.of(new Spool(folder, parts.spoolWatch()));
      countedOutput = spool.get().total();
    }
    spool.get().listen(this::grown);
    spool.get().follow();
    if (!record.phase().isAtLeast(Phase.RUNNING)) {
      startProgram(hold);
    } else if (sameBoot) {
      // A keeper of an earlier daemon may not know the process yet.
      record
          .started()
          .flatMap(started -> started.pid().stream().boxed().findFirst())
          .filter(pid -> ProcessHandle.of(pid).isPresent())
          .ifPresent(pid -> hold.ifPresent(held -> held.livesBy(pid)));
    }
    if (hold.isEmpty() && spec.holdsSomething() && sameBoot) {
      endIfItStillRuns();
    }
    limitTime();
    if (record.stop().isPresent()) {
      endProgram(forced || record.stop().get().reason() == ExitReason.SERVER_LOST);
    }
  }

  private void startProgram(Optional<RunHold> hold) throws InterruptedException {
    if (!sameBoot && folder.started()) {
      throw lost("the machine was restarted");
    }
    Launch launch = parts.planner().plan(record.id(), folder, spec, hold.map(RunHold::reservation));
    if (!record.phase().isAtLeast(Phase.LAUNCHING)) {
      parts.planner().bringCode(folder, spec);
    }
    // Twice only if an earlier daemon was killed before it could start what it made.
    if (!folder.started()) {
      // Neither needs the other, and both take their time.
      CompletableFuture<Void> spooling =
          CompletableFuture.runAsync(() -> spool.get().start(parts.outputLimit()), parts.threads());
      Runtime.Created created;
      try {
        created = parts.runtime().create(launch, new Fetching());
      } finally {
        await(spooling);
      }
      checkStopped();
      synchronized (this) {
        pull = Optional.empty();
        starting = created.running();
        save(record.at(Phase.LAUNCHING));
      }
      hold.ifPresent(held -> held.usedBy(created.mark()));
    }
    Running running = parts.runtime().start(launch);
    running.pid().ifPresent(pid -> hold.ifPresent(held -> held.livesBy(pid)));
    synchronized (this) {
      save(record.running(started(running, launch.limits().time())));
    }
    acceptedNanos.ifPresent(
        accepted ->
            parts
                .metrics()
                .started(record.started().orElseThrow().nanos() - accepted - inLineNanos));
    changed();
  }

  // The engine says late that a program runs: what it prints proves it.
  private void grown() {
    synchronized (this) {
      countOutput();
      if (seenToRun.isEmpty()
          && record.phase() == Phase.LAUNCHING
          && spool.map(Spool::total).orElse(0L) > 0) {
        seenToRun = starting.map(running -> started(running, Optional.empty()));
      }
    }
    changed();
  }

  // Call with the lock.
  private void countOutput() {
    long total = spool.map(Spool::total).orElse(countedOutput);
    parts.metrics().printed(total - countedOutput);
    countedOutput = total;
  }

  private Started started(Running running, Optional<Duration> timeLimit) {
    // The program may have ended by now, and its file may tell any time.
    Instant now = Instant.now();
    Instant at =
        folder
            .startedAt()
            .filter(time -> time.isAfter(record.accepted()) && time.isBefore(now))
            .orElse(now);
    return new Started(
        running.containerId(),
        at,
        System.nanoTime() - Duration.between(at, now).toNanos(),
        running.pid(),
        running.isolated(),
        running.notEnforced(),
        timeLimit);
  }

  private final class Fetching implements Runtime.Progress {
    @Override
    public void pulling(Pull progress) {
      synchronized (Run.this) {
        pull = Optional.of(progress);
      }
      changed();
    }

    @Override
    public boolean wanted() {
      return record.stop().isEmpty();
    }
  }

  private Ended awaitEnd(Optional<RunHold> hold) throws InterruptedException {
    Future<?> peak =
        parts
            .timer()
            .scheduleWithFixedDelay(this::notePeak, 0, PEAK_EVERY_SECONDS, TimeUnit.SECONDS);
    Runnable unwatch = limitIdleness(hold);
    try {
      Exit exit = parts.runtime().await(record.id());
      exitNanos = OptionalLong.of(parts.gpus().nowNanos());
      return ended(exit);
    } finally {
      unwatch.run();
      peak.cancel(false);
      synchronized (this) {
        timers.forEach(timer -> timer.cancel(false));
        timers.clear();
      }
    }
  }

  private void notePeak() {
    OptionalLong now = parts.runtime().peakMemory(record.id());
    synchronized (this) {
      if (now.isPresent() && now.getAsLong() > peakMemory.orElse(0)) {
        peakMemory = now;
      }
    }
  }

  private Ended ended(Exit exit) {
    ExitReason reason = ExitReason.FINISHED;
    String message = "";
    if (record.stop().isPresent()) {
      reason = record.stop().get().reason();
      message = record.stop().get().message();
    } else if (exit.outOfMemory()) {
      reason = ExitReason.OUT_OF_MEMORY;
      message = "it used more memory than it may";
    } else if (!sameBoot || !exit.lost().isEmpty()) {
      reason = ExitReason.SERVER_LOST;
      message = sameBoot ? exit.lost() : "the machine was restarted";
    }
    return ended(exit.code(), reason, message, exit.at());
  }

  private Ended ended(int code, ExitReason reason, String message, Optional<Instant> at) {
    Duration wallTime = Duration.ZERO;
    if (record.started().isPresent()) {
      Started started = record.started().get();
      wallTime =
          at.isPresent()
              ? Duration.between(started.at(), at.get())
              : Duration.ofNanos(System.nanoTime() - started.nanos());
      wallTime = wallTime.isNegative() ? Duration.ZERO : wallTime;
    }
    int gpus = reservation.map(held -> held.gpus().size()).orElse(0);
    return new Ended(
        code,
        reason,
        message,
        wallTime,
        peakMemory,
        gpus * wallTime.toNanos() / 1e9,
        at.orElseGet(Instant::now),
        0);
  }

  private Ended failed(BerthException e) {
    ExitReason reason =
        record
            .stop()
            .map(Stop::reason)
            .orElse(
                record.phase() == Phase.QUEUED
                    ? ExitReason.NOT_RESERVED
                    : e.reason() == Reason.NOT_FOUND
                        ? ExitReason.IMAGE_NOT_FOUND
                        : e.reason() == Reason.UNAVAILABLE
                            ? ExitReason.SERVER_LOST
                            : ExitReason.START_FAILED);
    // Whatever failed then, who stopped it is what its caller wants to know.
    BerthException told = record.stop().isPresent() ? stopped() : e;
    synchronized (this) {
      failure = Optional.of(told);
      if (record.started().isEmpty() && seenToRun.isPresent()) {
        // Its caller has been told so.
        note(record.running(seenToRun.get()));
      }
    }
    return ended(0, reason, told.getMessage(), Optional.empty());
  }

  /** Notes the end, when all of the output is there. */
  private void finish(Ended end) throws InterruptedException {
    long output = 0;
    if (spool.isPresent()) {
      Spool all = spool.get();
      if (!folder.started()) {
        all.abandon();
      }
      if (record.phase().isAtLeast(Phase.LAUNCHING) && !all.awaitComplete(USUAL_OUTPUT)) {
        // It may have been killed before it opened its pipes. Whoever has them open keeps them.
        all.abandon();
      }
      if (record.phase().isAtLeast(Phase.LAUNCHING) && !all.awaitComplete(LAST_OUTPUT)) {
        log.warn("{}: somebody still has its output open; what comes is not kept", record.id());
      }
      output = all.total();
    } else if (record.phase().isAtLeast(Phase.PREPARING) && !folder.started()) {
      // An earlier daemon may have started the readers of its pipes.
      try (Spool left = new Spool(folder, parts.spoolWatch())) {
        left.abandon();
      }
    }
    synchronized (this) {
      note(
          record.ended(
              new Ended(
                  end.exitCode(),
                  end.reason(),
                  end.message(),
                  end.wallTime(),
                  end.peakMemory(),
                  end.gpuSeconds(),
                  end.at(),
                  output)));
      abandonment.ifPresent(timer -> timer.cancel(false));
      countOutput();
    }
    parts.metrics().ended(end);
    log.info(
        "{} of {} has ended: {}{}{}",
        record.id(),
        spec.owner(),
        end.reason(),
        end.reason() == ExitReason.FINISHED ? " with " + end.exitCode() : "",
        end.message().isEmpty() ? "" : ", " + end.message());
    changed();
  }

  /** Frees what it held, and removes what is left of it. */
  private void cleanUp(Optional<RunHold> hold) throws InterruptedException {
    if (record.phase() != Phase.CLEANED) {
      if (hold.isPresent() && exitNanos.isPresent()) {
        // What ran has ended, so its GPUs can be looked at while the rest of it is removed.
        parts.gpus().wantSample();
      }
      remove();
      if (hold.isPresent()) {
        freeGpus(hold.get(), exitNanos.orElseGet(parts.gpus()::nowNanos));
      }
      deletePipes();
      synchronized (this) {
        heldBack = "";
        note(record.at(Phase.CLEANED));
        spec = spec.withoutContent();
      }
    }
    changed();
    cleaned.complete(null);
    synchronized (this) {
      spool.ifPresent(Spool::close);
      spool = Optional.empty();
    }
    awaitSaved();
  }

  // One whose end is not written down must not lose the mark of its start too: the next daemon
  // would start it again.
  private synchronized void deletePipes() {
    if (!unsaved) {
      folder.deletePipes();
    }
  }

  private void awaitSaved() throws InterruptedException {
    while (true) {
      synchronized (this) {
        if (!unsaved) {
          return;
        }
      }
      Thread.sleep(SAVE_AGAIN.toMillis());
      // Somebody may have removed it meanwhile.
      if (!folder.exists()) {
        return;
      }
      synchronized (this) {
        note(record);
      }
      deletePipes();
    }
  }

  // Nothing is free before what ran is certainly gone.
  private void remove() throws InterruptedException {
    while (true) {
      try {
        parts.runtime().remove(record.id());
        return;
      } catch (BerthException e) {
        synchronized (this) {
          heldBack = e.getMessage();
        }
        log.warn("what is left of {} cannot be removed yet: {}", record.id(), e.getMessage());
        changed();
        Thread.sleep(REMOVE_AGAIN.toMillis());
      }
    }
  }

  /** Releases the GPUs when the driver shows none of the run's processes on them any more. */
  private void freeGpus(RunHold hold, long endedNanos) throws InterruptedException {
    for (long now = endedNanos; !hold.gpus().isEmpty(); now = parts.gpus().nowNanos()) {
      String why = parts.leftOnGpus().lookAt(hold.gpus(), now);
      if (why.isEmpty()) {
        break;
      }
      boolean news;
      synchronized (this) {
        news = !why.equals(heldBack);
        heldBack = why;
      }
      if (news) {
        log.warn("GPUs of {} are held back: {}", record.id(), why);
        hold.holdBack(why);
        changed();
      }
      Thread.sleep(LOOK_AGAIN.toMillis());
    }
    hold.release();
  }

  private void limitTime() {
    Started started = record.started().orElseThrow();
    if (started.timeLimit().isEmpty()) {
      return;
    }
    Duration limit = started.timeLimit().get();
    long end = started.nanos() + limit.toNanos();
    long left = end - System.nanoTime();
    synchronized (this) {
      timers.add(
          parts
              .timer()
              .schedule(
                  () ->
                      stopUnlessOver(
                          new Stop(
                              ExitReason.TIME_LIMIT,
                              "its time of " + limit.toMillis() / 1000.0 + " s was over")),
                  left,
                  TimeUnit.NANOSECONDS));
      spec.limits()
          .warning()
          .filter(warning -> left > warning.before().toNanos())
          .ifPresent(
              warning ->
                  timers.add(
                      parts
                          .timer()
                          .schedule(
                              () -> signal(warning.signal()),
                              left - warning.before().toNanos(),
                              TimeUnit.NANOSECONDS)));
    }
  }

  /** Ends it when it does not use its GPUs, until the result is run. */
  private Runnable limitIdleness(Optional<RunHold> hold) {
    if (spec.limits().idle().isEmpty() || hold.isEmpty()) {
      return () -> {};
    }
    Limits.Idle limit = spec.limits().idle().get();
    Stop order = new Stop(ExitReason.IDLE, "its GPUs were used " + limit);
    return parts
        .gpus()
        .listen(
            new IdleWatch(
                limit,
                hold.get().gpus(),
                parts.gpus()::nowNanos,
                () -> parts.threads().execute(() -> stopUnlessOver(order))));
  }

  private void stopUnlessOver(Stop order) {
    if (!over()) {
      stop(order, false);
    }
  }

  private void endProgram(boolean force) {
    Duration grace = spec.limits().stopGrace();
    if (force || grace.isZero()) {
      signal("KILL");
      return;
    }
    synchronized (this) {
      if (ending) {
        return;
      }
      ending = true;
    }
    signal("TERM");
    synchronized (this) {
      timers.add(
          parts.timer().schedule(() -> signal("KILL"), grace.toMillis(), TimeUnit.MILLISECONDS));
    }
  }

  // On a thread of its own: the engine may take its time.
  private void signal(String name) {
    parts
        .threads()
        .execute(
            () -> {
              try {
                parts.runtime().signal(record.id(), name);
              } catch (RuntimeException e) {
                log.warn("cannot send SIG{} to {}: {}", name, record.id(), e.getMessage());
              }
            });
  }

  private void checkStopped() {
    if (record.stop().isPresent() && !record.phase().isAtLeast(Phase.LAUNCHING)) {
      throw stopped();
    }
  }

  private BerthException stopped() {
    return new BerthException(
        Reason.CANCELLED, record.id() + " " + record.stop().map(Stop::message).orElse("was left"));
  }

  private static BerthException lost(String why) {
    return new BerthException(Reason.UNAVAILABLE, why);
  }

  // What may not happen before it is written down. Call with the lock.
  private void save(RunRecord next) {
    parts.store().save(next);
    record = next;
    unsaved = false;
  }

  // What is so whether or not it can be written down: a full disk must keep no run from ending.
  // Call with the lock.
  private void note(RunRecord next) {
    try {
      save(next);
    } catch (BerthException e) {
      if (!unsaved) {
        log.warn("what becomes of {} cannot be written down yet: {}", id(), e.getMessage());
      }
      record = next;
      unsaved = true;
    }
  }

  private void changed() {
    listeners.forEach(Runnable::run);
  }
}
