package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.ByteSize;
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
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
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
  private static final Duration BEGIN_AGAIN = Duration.ofSeconds(1);
  private static final Duration LOOK_AGAIN = Duration.ofMillis(200);
  private static final long PEAK_EVERY_SECONDS = 2;
  private static final Duration LOOK_AT_DISK = Duration.ofSeconds(10);
  // A look may take a twentieth of the time, but is never put off for longer than this.
  private static final Duration LONGEST_PAUSE = Duration.ofMinutes(2);
  private static final int SELDOM = 20;

  /**
   * A run at one moment.
   *
   * @param started its start, also before that is noted if it has printed something
   * @param ahead requests before it, while it is queued
   * @param waitingBecause what is wrong with this server, while it waits for that to end
   * @param pull the newest progress, while its image is fetched
   * @param heldBack why its GPUs are not free although it is over
   * @param settled whether it is over and its GPUs are free, or it is known why they are not
   */
  record View(
      RunRecord record,
      Optional<Started> started,
      OptionalInt ahead,
      String waitingBecause,
      Optional<Reservation> reservation,
      Optional<Pull> pull,
      String heldBack,
      boolean settled) {}

  private final RunParts parts;
  // Without what only its start needs, which is on disk: many may wait, and runs are kept for long.
  // Empty for one that is over: it is read when somebody asks.
  private volatile Optional<RunSpec> spec;
  private final boolean detached;
  private final RunFolder folder;
  private final SavedRecord saved;
  private final boolean sameBoot;
  private final boolean damaged;
  private final OptionalLong acceptedNanos;
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private final List<Future<?>> timers = new ArrayList<>();
  private final CompletableFuture<Void> cleaned = new CompletableFuture<>();

  private boolean begun;
  // Whether an earlier daemon may have made something for GPUs that it has no more.
  private boolean lostHold;
  private OptionalInt ahead = OptionalInt.empty();
  private String waitingBecause = "";
  private Optional<Reservation> reservation = Optional.empty();
  private Optional<Pull> pull = Optional.empty();
  private String heldBack = "";
  private OptionalLong peakMemory = OptionalLong.empty();
  private Optional<BerthException> failure = Optional.empty();
  private Optional<Spool> spool = Optional.empty();
  private Optional<Running> starting = Optional.empty();
  // What was made of the code that is in its folder, while it is not started.
  private Optional<Launch> brought = Optional.empty();
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

  private Run(RunParts parts, RunStore.Stored stored, OptionalLong acceptedNanos) {
    this.parts = parts;
    this.spec = stored.spec();
    this.detached = stored.spec().map(RunSpec::detached).orElse(true);
    this.folder = stored.folder();
    this.saved = new SavedRecord(parts.store(), parts.threads(), stored.record());
    this.sameBoot = stored.sameBoot();
    this.damaged = stored.damaged();
    this.acceptedNanos = acceptedNanos;
    if (stored.record().phase() == Phase.CLEANED) {
      cleaned.complete(null);
    }
  }

  /** A new run, which is on disk already. */
  static Run accepted(RunParts parts, RunFolder folder, RunRecord record, RunSpec spec) {
    return new Run(
        parts,
        new RunStore.Stored(folder, record, Optional.of(spec), true, false),
        OptionalLong.of(System.nanoTime()));
  }

  /** A run of an earlier process. */
  static Run recovered(RunParts parts, RunStore.Stored stored) {
    return new Run(parts, stored, OptionalLong.empty());
  }

  private RunRecord record() {
    return saved.get();
  }

  String id() {
    return record().id();
  }

  /** What was asked for, as far as lists show it. */
  RunSpec spec() {
    return spec.orElseGet(() -> parts.store().shown(folder));
  }

  /** By which its caller knows it; empty if by none. */
  String requestId() {
    return record().requestId();
  }

  /** How many runs were accepted before it. */
  long number() {
    return record().number();
  }

  RunFolder folder() {
    return folder;
  }

  synchronized View view() {
    RunRecord record = record();
    boolean over = record.phase().isAtLeast(Phase.ENDED);
    return new View(
        record,
        record.started().or(() -> seenToRun),
        ahead,
        waitingBecause,
        reservation,
        pull,
        heldBack,
        over
            && (record.phase() == Phase.CLEANED
                || !spec().holdsSomething()
                || !heldBack.isEmpty()));
  }

  /** Why it failed before its start, as its caller is to be told. */
  synchronized Optional<BerthException> failure() {
    return failure;
  }

  boolean over() {
    return record().phase().isAtLeast(Phase.ENDED);
  }

  /** When it ended, once it is over. */
  Optional<Instant> endedAt() {
    return record().ended().map(Ended::at);
  }

  /** What it takes on the disk, if it is over. Looks at the disk the first time. */
  long keptBytes() {
    if (record().keptBytes().isEmpty()) {
      long bytes = DiskUse.below(folder.path()).orElse(0);
      saved.noteSoon(now -> now.keeping(bytes));
    }
    return record().keptBytes().orElse(0);
  }

  /** Nothing of it is written any more: it is about to be deleted. */
  void discard() {
    saved.discard();
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

  /**
   * Starts to carry it out, or to go on with it; once. If it has to queue, it is in the line when
   * this returns, and needs no thread until it is served.
   */
  void start() {
    boolean waits = record().phase() == Phase.QUEUED;
    if (acceptedNanos.isEmpty() && spec().holdsSomething() && !over()) {
      lostHold = parts.reservations().heldBy(id(), this::reservationEnded).isEmpty();
      // Also one that had its GPUs before the machine was restarted: it came before those who wait.
      waits = lostHold && !record().phase().isAtLeast(Phase.LAUNCHING);
    }
    waits &= spec().needsReservation() && record().stop().isEmpty();
    synchronized (this) {
      if (begun) {
        return;
      }
      begun = true;
      if (!detached) {
        watchCaller();
      }
    }
    if (waits) {
      joinLine();
    } else {
      begin(Served.NOT_YET);
    }
  }

  // What was accepted is carried out, also if there is no thread for it at the moment.
  private void begin(Served served) {
    try {
      startThread(served);
    } catch (RuntimeException | Error e) {
      if (waitsBecause("the server cannot start a thread")) {
        log.error("{} cannot be carried out yet", id(), e);
      }
      later(() -> begin(served));
    }
  }

  private synchronized void startThread(Served served) {
    if (!parts.closed()) {
      Thread next = parts.runThreads().newThread(() -> carryOut(served));
      next.setName("run-" + id());
      next.setDaemon(true);
      next.start();
      thread = next;
    }
  }

  /** Leaves it as it is, for the next daemon to find. */
  void leave() {
    synchronized (this) {
      // What is cleaned up is only being written down.
      if (thread != null && !cleaned.isDone()) {
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
    synchronized (this) {
      spool.ifPresent(Spool::close);
    }
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
    if (!detached) {
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
                      () -> soon(this::abandoned),
                      parts.callerGrace().toMillis(),
                      TimeUnit.MILLISECONDS));
    }
  }

  private void abandoned() {
    synchronized (this) {
      if (holders > 0 || over() || parts.closed()) {
        return;
      }
    }
    stopUnlessOver(new Stop(ExitReason.CANCELLED, "its caller has gone"));
  }

  // Not in the thread of the timers, which all runs need: the disk or the engine may take its time.
  private void soon(Runnable task) {
    try {
      parts
          .threads()
          .execute(
              () -> {
                try {
                  task.run();
                } catch (RuntimeException e) {
                  log.error("{}: unexpected failure", id(), e);
                }
              });
    } catch (RejectedExecutionException e) {
      // The daemon stops, and the next one goes on.
    } catch (Error e) {
      log.error("{}: no thread at present", id(), e);
      later(() -> soon(task));
    }
  }

  private void later(Runnable task) {
    try {
      parts.timer().schedule(task, BEGIN_AGAIN.toMillis(), TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException e) {
      // The daemon stops, and the next one goes on.
    }
  }

  /**
   * Orders it to end.
   *
   * @param force without any grace
   * @throws BerthException if it is over
   */
  void stop(Stop order, boolean force) {
    RunRecord before = record();
    saved.note(now -> now.stopping(order));
    if (over()) {
      throw new BerthException(Reason.CONFLICT, id() + " has ended already");
    }
    if (before.stop().isEmpty()) {
      log.info("{} is to end: {}", id(), order.message());
    }
    // A program may print, and be cancelled for that, before its start is noted.
    boolean running;
    Runnable leave;
    synchronized (this) {
      forced |= force;
      running = record().phase() == Phase.RUNNING;
      leave = leaveQueue;
      // Whoever waits for the server need not wait any longer.
      notifyAll();
    }
    leave.run();
    if (running) {
      endProgram(force);
    }
  }

  private void carryOut(Served served) {
    try {
      waitsBecause("");
      Optional<RunHold> hold = Optional.empty();
      if (!record().phase().isAtLeast(Phase.ENDED)) {
        Ended end;
        try {
          if (served.refused().isPresent()) {
            throw served.refused().get();
          }
          Optional<Optional<RunHold>> got = reserve(served);
          if (got.isEmpty()) {
            joinLine();
            return;
          }
          hold = got.get();
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
          log.error("{} failed unexpectedly", record().id(), e);
          end = failed(new BerthException(Reason.INTERNAL, "the server failed unexpectedly", e));
        }
        finish(end);
      }
      cleanUp(hold.or(() -> parts.reservations().heldBy(record().id(), () -> {})));
    } catch (InterruptedException e) {
      // The daemon stops, and the next one goes on.
    } catch (RuntimeException e) {
      if (!parts.closed()) {
        log.error("{} failed unexpectedly", record().id(), e);
      }
    } finally {
      unattend.run();
      synchronized (this) {
        if (thread == Thread.currentThread()) {
          thread = null;
        }
      }
    }
  }

  // What fails because this process ends is no failure of the run.
  private void leaveIfClosed() throws InterruptedException {
    if (parts.closed()) {
      throw new InterruptedException();
    }
  }

  private void reservationEnded() {
    soon(() -> stopUnlessOver(new Stop(ExitReason.CANCELLED, "its reservation has ended")));
  }

  /** Gets what the run holds; empty if it has to queue for that. */
  private Optional<Optional<RunHold>> reserve(Served served) throws InterruptedException {
    Optional<RunHold> hold = parts.reservations().heldBy(id(), this::reservationEnded);
    if (lostHold) {
      if (record().phase().isAtLeast(Phase.LAUNCHING) && (!sameBoot || damaged)) {
        // Never started again, so it needs no GPUs.
        return Optional.of(hold);
      }
      // Made for GPUs that may be another's by now.
      if (!folder.started()) {
        remove();
      }
      if (folder.started()) {
        return Optional.of(hold);
      }
    }
    if (hold.isEmpty() && served.reservation().isPresent()) {
      hold = Optional.of(holdWhenPossible(served.reservation().get().id()));
    }
    if (hold.isEmpty() && spec().reservationId().isPresent()) {
      hold = Optional.of(holdWhenPossible(spec().reservationId().get()));
    }
    if (hold.isEmpty() && spec().needsReservation()) {
      return Optional.empty();
    }
    synchronized (this) {
      ahead = OptionalInt.empty();
      waitingBecause = "";
      leaveQueue = () -> {};
      reservation = hold.map(RunHold::reservation);
    }
    if (!record().phase().isAtLeast(Phase.PREPARING)) {
      saved.noteSoon(now -> now.at(Phase.PREPARING));
    }
    changed();
    checkStopped();
    return Optional.of(hold);
  }

  private RunHold hold(String reservationId) {
    return parts.reservations().hold(reservationId, id(), this::reservationEnded);
  }

  private RunHold holdWhenPossible(String reservationId) throws InterruptedException {
    List<RunHold> held = new ArrayList<>();
    untilDone(() -> held.add(hold(reservationId)));
    return held.get(0);
  }

  // Its keeper is gone, so somebody else may have its GPUs: it must not run on.
  private void endIfItStillRuns() throws InterruptedException {
    Launch launch = plan(Optional.empty());
    // Was started before, so this only looks. A keeper ends with the program, and nothing is lost
    // then.
    boolean runs = parts.runtime().start(launch).pid().isPresent();
    if (runs && record().stop().isEmpty()) {
      log.error("{} has lost the locks of its GPUs; ending it", record().id());
      Stop order =
          new Stop(
              ExitReason.SERVER_LOST,
              "the locks of its GPUs were lost while berthd was not running");
      saved.note(now -> now.stopping(order));
    }
  }

  /** Takes a place in the line for GPUs; {@link Line} is told what comes of it. */
  private void joinLine() {
    Line line = new Line();
    Runnable leave;
    try {
      leave =
          parts
              .reservations()
              .reserve(
                  new ReservationRequest(
                      spec().gpus(),
                      spec().ports(),
                      spec().waitAtMost(),
                      new Lifetime.OfRun(id()),
                      spec().owner(),
                      spec().name(),
                      ""),
                  line);
    } catch (BerthException e) {
      line.failed(e);
      return;
    } catch (RuntimeException | Error e) {
      log.error("{} cannot queue", id(), e);
      line.failed(new BerthException(Reason.INTERNAL, "the server failed unexpectedly", e));
      return;
    }
    synchronized (this) {
      leaveQueue =
          () -> {
            if (line.settle()) {
              leave.run();
              begin(Served.refused(stopped()));
            }
          };
    }
    if (record().stop().isPresent()) {
      leaveQueue.run();
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

  /** What the line has given a run: GPUs, or the reason why it gets none. */
  private record Served(Optional<Reservation> reservation, Optional<BerthException> refused) {
    static final Served NOT_YET = new Served(Optional.empty(), Optional.empty());

    static Served refused(BerthException why) {
      return new Served(Optional.empty(), Optional.of(why));
    }
  }

  /** Told how the request fares in the line. */
  private final class Line implements ReservationListener {
    private final long joined = System.nanoTime();
    private final AtomicBoolean settled = new AtomicBoolean();

    /** Whether it is this caller who decides what becomes of the place. */
    boolean settle() {
      return settled.compareAndSet(false, true);
    }

    @Override
    public void queued(int before, String because) {
      synchronized (Run.this) {
        ahead = OptionalInt.of(before);
        waitingBecause = because;
      }
      changed();
    }

    @Override
    public void granted(Reservation got) {
      if (settle()) {
        synchronized (Run.this) {
          inLineNanos = System.nanoTime() - joined;
        }
        begin(new Served(Optional.of(got), Optional.empty()));
      } else {
        // It has been stopped in the same moment.
        soon(() -> hold(got.id()).release());
      }
    }

    @Override
    public void failed(BerthException why) {
      if (settle()) {
        begin(Served.refused(why));
      }
    }

    @Override
    public void ended() {}
  }

  /** Brings code and image, and starts the program; finds what an earlier daemon has done of it. */
  private void launch(Optional<RunHold> hold) throws InterruptedException {
    if (!record().phase().isAtLeast(Phase.RUNNING)) {
      startProgram(hold);
    }
    if (record().phase().isAtLeast(Phase.RUNNING) && sameBoot) {
      // A keeper of an earlier daemon may not know the process yet.
      record()
          .started()
          .flatMap(started -> started.pid().stream().boxed().findFirst())
          .filter(pid -> ProcessHandle.of(pid).isPresent())
          .ifPresent(pid -> tellKeeper(hold, pid));
    }
    if (hold.isEmpty() && spec().holdsSomething() && sameBoot) {
      untilDone(this::endIfItStillRuns);
    }
    limitTime();
    if (record().stop().isPresent()) {
      endProgram(forced || record().stop().get().reason() == ExitReason.SERVER_LOST);
    }
    if (spool.isEmpty()) {
      // Of one that runs: its limits hold meanwhile, and what it prints is on disk.
      untilDone(this::openSpool);
    }
  }

  // The mark and the older keeper, which stays, do until the run ends.
  private void tellKeeper(Optional<RunHold> hold, int pid) {
    try {
      hold.ifPresent(held -> held.livesBy(pid));
    } catch (BerthException e) {
      log.warn("{}: the keeper of its GPUs is not told its process: {}", id(), e.getMessage());
    }
  }

  private interface Step {
    void take() throws InterruptedException;
  }

  private void untilDone(Step step) throws InterruptedException {
    ServerTrouble trouble = trouble();
    while (true) {
      try {
        step.take();
        return;
      } catch (RuntimeException | OutOfMemoryError e) {
        waitOut(trouble, e);
      }
    }
  }

  private void openSpool() {
    Spool opened = new Spool(folder, parts.spoolWatch());
    synchronized (this) {
      spool.ifPresent(Spool::close);
      spool = Optional.of(opened);
      countedOutput = opened.total();
    }
    opened.listen(this::grown);
    opened.follow();
  }

  private Launch plan(Optional<Reservation> held) {
    List<Launch.Bind> binds = binds();
    return fromContent(whole -> parts.planner().plan(id(), folder, whole, binds, held));
  }

  private List<Launch.Bind> binds() {
    return parts.planner().binds(fromContent(RunSpec::mounts));
  }

  // Read, used and forgotten: what is to be run may be large, and all runs share the memory for it.
  private <T> T fromContent(Function<RunSpec, T> use) {
    Runnable giveBack = parts.memory().take(parts.store().contentBytes(folder));
    try {
      return use.apply(parts.store().whole(folder));
    } finally {
      giveBack.run();
    }
  }

  private void startProgram(Optional<RunHold> hold) throws InterruptedException {
    if (record().phase().isAtLeast(Phase.LAUNCHING)) {
      if (!sameBoot) {
        // Whether or not the mark of its start was on disk by then.
        throw lost("the machine was restarted");
      }
      if (damaged && !folder.started()) {
        throw lost("the record of its state was damaged, and it may have been started");
      }
    }
    Started started = startOnceReady(hold);
    saved.noteSoon(now -> now.running(started));
    acceptedNanos.ifPresent(
        accepted -> parts.metrics().started(started.nanos() - accepted - inLineNanos));
    changed();
  }

  // A full disk is no fault of the run: it goes on when there is room again. Nor is it started on
  // one, where neither its output nor its end could be written down.
  private Started startOnceReady(Optional<RunHold> hold) throws InterruptedException {
    ServerTrouble trouble = trouble();
    while (true) {
      if (!record().phase().isAtLeast(Phase.LAUNCHING) && parts.disk().isShort()) {
        pauseForRoom();
        continue;
      }
      try {
        Launch launch = makeReady(hold);
        Running running = parts.runtime().start(launch);
        waitsBecause("");
        brought = Optional.empty();
        running.pid().ifPresent(pid -> tellKeeper(hold, pid));
        return started(running, launch.limits().time());
      } catch (RuntimeException | OutOfMemoryError e) {
        waitOut(trouble, e);
      }
    }
  }

  private ServerTrouble trouble() {
    // Who does not queue says nothing of waiting.
    return new ServerTrouble(
        spec().needsReservation() ? spec().waitAtMost() : Optional.empty(),
        () -> !parts.runtime().info().usable() || parts.disk().isShort(),
        System::nanoTime);
  }

  /**
   * Waits a while after a failure that was the server's; passes on any other. What may run is
   * waited for without limit: to give it up would be to kill it.
   */
  private void waitOut(ServerTrouble trouble, Throwable failure) throws InterruptedException {
    leaveIfClosed();
    BerthException why = ServerTrouble.of(failure).orElseThrow(() -> unchecked(failure));
    boolean fetching;
    synchronized (this) {
      fetching = pull.isPresent();
      pull = Optional.empty();
    }
    if (record().phase().isAtLeast(Phase.RUNNING) || folder.started()) {
      log.warn("{} runs, and is taken up again soon: {}", id(), why.getMessage());
      Thread.sleep(trouble.pause().toMillis());
      return;
    }
    if (record().stop().isPresent()) {
      throw stopped();
    }
    if (trouble.lastsTooLong(fetching)) {
      throw fetching ? new BerthException(Reason.NOT_FOUND, why.getMessage(), why) : why;
    }
    if (waitsBecause(why.getMessage())) {
      log.warn("{} waits for this server: {}", id(), why.getMessage());
    }
    pause(trouble.pause());
    if (record().stop().isPresent()) {
      throw stopped();
    }
  }

  private static RuntimeException unchecked(Throwable failure) {
    return failure instanceof RuntimeException e ? e : new CompletionException(failure);
  }

  // No longer than until it is stopped.
  private synchronized void pause(Duration atMost) throws InterruptedException {
    long end = System.nanoTime() + atMost.toNanos();
    for (long left = atMost.toNanos();
        left > 0 && record().stop().isEmpty();
        left = end - System.nanoTime()) {
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
  }

  private void pauseForRoom() throws InterruptedException {
    if (waitsBecause("the disk of the server is full")) {
      log.warn("{} waits for room on the disk", id());
    }
    checkStopped();
    pause(SAVE_AGAIN);
    checkStopped();
  }

  /** Returns whether that is new. */
  private boolean waitsBecause(String reason) {
    synchronized (this) {
      if (waitingBecause.equals(reason)) {
        return false;
      }
      waitingBecause = reason;
    }
    changed();
    return true;
  }

  private Launch makeReady(Optional<RunHold> hold) throws InterruptedException {
    if (spool.isEmpty() && record().phase().isAtLeast(Phase.LAUNCHING)) {
      openSpool();
    }
    Launch launch;
    if (brought.isPresent()) {
      launch = brought.get();
    } else if (record().phase().isAtLeast(Phase.LAUNCHING)) {
      launch = plan(hold.map(RunHold::reservation));
    } else {
      launch = bringCode(hold.map(RunHold::reservation));
      openSpool();
      brought = Optional.of(launch);
    }
    // Twice only if the engine failed, or an earlier daemon was killed before it could start what
    // it made.
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
      }
      // What was brought and made may have filled the disk; the record would fit all the same.
      while (!record().phase().isAtLeast(Phase.LAUNCHING) && parts.disk().isShort()) {
        pauseForRoom();
      }
      // On disk before anything of the program can start.
      saved.write(this::launching);
      hold.ifPresent(held -> held.usedBy(created.mark()));
    }
    return launch;
  }

  private RunRecord launching(RunRecord now) {
    if (now.phase().isAtLeast(Phase.LAUNCHING)) {
      return now;
    }
    if (now.stop().isPresent()) {
      throw stopped();
    }
    return now.at(Phase.LAUNCHING);
  }

  // What takes long, such as a mount that hangs or a large bundle, does so without the content.
  private Launch bringCode(Optional<Reservation> held) {
    try {
      folder.createForProgram();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    List<Launch.Bind> binds = binds();
    if (spec().code() instanceof RunSpec.Code.Bundle bundle) {
      parts.planner().bringBundle(folder, bundle);
    }
    Launch launch =
        fromContent(
            whole -> {
              Launch planned = parts.planner().plan(id(), folder, whole, binds, held);
              parts.planner().bringFiles(folder, whole);
              return planned;
            });
    parts.planner().handOver(launch);
    return launch;
  }

  // The engine says late that a program runs: what it prints proves it.
  private void grown() {
    synchronized (this) {
      countOutput();
      if (seenToRun.isEmpty()
          && record().phase() == Phase.LAUNCHING
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
            .filter(time -> time.isAfter(record().accepted()) && time.isBefore(now))
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
      return record().stop().isEmpty();
    }
  }

  private Ended awaitEnd(Optional<RunHold> hold) throws InterruptedException {
    Runnable unwatchPeak = again(Duration.ofSeconds(PEAK_EVERY_SECONDS), this::notePeak);
    Runnable unwatchDisk = limitDisk();
    Runnable unwatch = limitIdleness(hold);
    try {
      Exit exit = parts.runtime().await(record().id());
      exitNanos = OptionalLong.of(parts.gpus().nowNanos());
      return ended(exit);
    } finally {
      unwatch.run();
      unwatchDisk.run();
      unwatchPeak.run();
      synchronized (this) {
        timers.forEach(timer -> timer.cancel(false));
        timers.clear();
      }
    }
  }

  /**
   * Does something now and then until the result is run; less often if it takes long, and never
   * twice at once.
   */
  private Runnable again(Duration pause, Runnable task) {
    AtomicBoolean over = new AtomicBoolean();
    soon(() -> onceMore(pause, task, over));
    return () -> over.set(true);
  }

  private void onceMore(Duration pause, Runnable task, AtomicBoolean over) {
    if (over.get() || parts.closed()) {
      return;
    }
    long began = System.nanoTime();
    try {
      task.run();
    } catch (RuntimeException e) {
      log.warn("{}: {}", id(), e.toString());
    }
    long next = pauseAfter(pause, Duration.ofNanos(System.nanoTime() - began)).toNanos();
    try {
      parts
          .timer()
          .schedule(() -> soon(() -> onceMore(pause, task, over)), next, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      // The daemon stops.
    }
  }

  /** How long to wait until something is done again. */
  static Duration pauseAfter(Duration usual, Duration took) {
    Duration seldom = took.multipliedBy(SELDOM);
    // A program decides how many files there are to be looked at.
    Duration longest = seldom.compareTo(LONGEST_PAUSE) < 0 ? seldom : LONGEST_PAUSE;
    return usual.compareTo(longest) > 0 ? usual : longest;
  }

  /** Ends it when its folder has grown too large, until the result is run. */
  private Runnable limitDisk() {
    if (parts.workLimit().isEmpty()) {
      return () -> {};
    }
    long limit = parts.workLimit().get();
    return again(
        LOOK_AT_DISK,
        () -> {
          Runtime.DiskShare share = parts.runtime().diskShare(id());
          long used = DiskUse.below(folder.work()).orElse(0) + share.unlinkedBytes();
          for (Path path : share.folders()) {
            used += DiskUse.below(path).orElse(0);
          }
          if (used > limit) {
            stopUnlessOver(
                new Stop(
                    ExitReason.DISK_LIMIT,
                    "it has written "
                        + ByteSize.text(used)
                        + ", "
                        + ByteSize.text(limit)
                        + " are allowed (--work-limit)"));
          }
        });
  }

  private void notePeak() {
    OptionalLong now = parts.runtime().peakMemory(record().id());
    synchronized (this) {
      if (now.isPresent() && now.getAsLong() > peakMemory.orElse(0)) {
        peakMemory = now;
      }
    }
  }

  private Ended ended(Exit exit) {
    ExitReason reason = ExitReason.FINISHED;
    String message = "";
    if (record().stop().isPresent()) {
      reason = record().stop().get().reason();
      message = record().stop().get().message();
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
    if (record().started().isPresent()) {
      Started started = record().started().get();
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
        record()
            .stop()
            .map(Stop::reason)
            .orElse(
                record().phase() == Phase.QUEUED
                    ? ExitReason.NOT_RESERVED
                    : e.reason() == Reason.NOT_FOUND
                        ? ExitReason.IMAGE_NOT_FOUND
                        : e.reason() == Reason.UNAVAILABLE
                            ? ExitReason.SERVER_LOST
                            : ExitReason.START_FAILED);
    // Whatever failed then, who stopped it is what its caller wants to know.
    BerthException told = record().stop().isPresent() ? stopped() : e;
    Optional<Started> seen;
    synchronized (this) {
      failure = Optional.of(told);
      seen = seenToRun;
    }
    if (record().started().isEmpty() && seen.isPresent()) {
      // Its caller has been told so.
      saved.note(now -> now.running(seen.get()));
    }
    return ended(0, reason, told.getMessage(), Optional.empty());
  }

  /** Notes the end, when all of the output is there. */
  private void finish(Ended end) throws InterruptedException {
    long output = 0;
    Path[] flushed = {};
    if (spool.isPresent()) {
      Spool all = spool.get();
      if (!folder.started()) {
        all.abandon();
      }
      if (record().phase().isAtLeast(Phase.LAUNCHING) && !all.awaitComplete(USUAL_OUTPUT)) {
        // It may have been killed before it opened its pipes. Whoever has them open keeps them.
        all.abandon();
      }
      if (record().phase().isAtLeast(Phase.LAUNCHING) && !all.awaitComplete(LAST_OUTPUT)) {
        log.warn("{}: somebody still has its output open; what comes is not kept", record().id());
      }
      output = all.total();
      flushed = all.written();
    } else if (Files.exists(folder.io()) && !folder.started()) {
      // An earlier daemon may have started the readers of its pipes.
      try (Spool left = new Spool(folder, parts.spoolWatch())) {
        left.abandon();
      }
    }
    Ended whole =
        new Ended(
            end.exitCode(),
            end.reason(),
            end.message(),
            end.wallTime(),
            end.peakMemory(),
            end.gpuSeconds(),
            end.at(),
            output);
    saved.note(now -> now.ended(whole), flushed);
    synchronized (this) {
      abandonment.ifPresent(timer -> timer.cancel(false));
      countOutput();
    }
    parts.metrics().ended(end);
    log.info(
        "{} of {} has ended: {}{}{}",
        record().id(),
        spec().owner(),
        end.reason(),
        end.reason() == ExitReason.FINISHED ? " with " + end.exitCode() : "",
        end.message().isEmpty() ? "" : ", " + end.message());
    changed();
  }

  /** Frees what it held, and removes what is left of it. */
  private void cleanUp(Optional<RunHold> hold) throws InterruptedException {
    if (record().phase() != Phase.CLEANED) {
      if (hold.isPresent() && exitNanos.isPresent()) {
        // What ran has ended, so its GPUs can be looked at while the rest of it is removed.
        parts.gpus().wantSample();
      }
      remove();
      if (hold.isPresent()) {
        freeGpus(hold.get(), exitNanos.orElseGet(parts.gpus()::nowNanos));
      }
      boolean pipesDeleted = deletePipes();
      synchronized (this) {
        heldBack = "";
      }
      // Its caller need not wait for that to be on disk: what comes before it is.
      saved.noteSoon(now -> now.at(Phase.CLEANED));
      finishCleaning();
      awaitSaved(pipesDeleted);
    } else {
      finishCleaning();
    }
  }

  private void finishCleaning() {
    changed();
    cleaned.complete(null);
    parts.onCleaned().accept(this);
    synchronized (this) {
      spool.ifPresent(Spool::close);
      spool = Optional.empty();
    }
    spec = Optional.empty();
  }

  // One whose end is not written down must not lose the mark of its start too: the next daemon
  // would start it again.
  private boolean deletePipes() {
    boolean saved = this.saved.saveAgain();
    if (saved) {
      folder.deleteForProgram();
    }
    return saved;
  }

  private void awaitSaved(boolean pipesDeleted) throws InterruptedException {
    // Somebody may have removed it meanwhile.
    while (folder.exists() && !parts.closed()) {
      if (saved.saveAgain()) {
        if (!pipesDeleted) {
          folder.deleteForProgram();
        }
        return;
      }
      Thread.sleep(SAVE_AGAIN.toMillis());
    }
  }

  // Nothing is free before what ran is certainly gone.
  private void remove() throws InterruptedException {
    while (true) {
      try {
        parts.runtime().remove(record().id());
        return;
      } catch (RuntimeException e) {
        synchronized (this) {
          heldBack = String.valueOf(e.getMessage());
        }
        log.warn("what is left of {} cannot be removed yet: {}", record().id(), e.toString());
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
        log.warn("GPUs of {} are held back: {}", record().id(), why);
        hold.holdBack(why);
        changed();
      }
      Thread.sleep(LOOK_AGAIN.toMillis());
    }
    hold.release();
  }

  private void limitTime() {
    Started started = record().started().orElseThrow();
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
                      soon(
                          () ->
                              stopUnlessOver(
                                  new Stop(
                                      ExitReason.TIME_LIMIT,
                                      "its time of " + limit.toMillis() / 1000.0 + " s was over"))),
                  left,
                  TimeUnit.NANOSECONDS));
      spec()
          .limits()
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
    if (spec().limits().idle().isEmpty() || hold.isEmpty()) {
      return () -> {};
    }
    Limits.Idle limit = spec().limits().idle().get();
    Stop order = new Stop(ExitReason.IDLE, "its GPUs were used " + limit);
    return parts
        .gpus()
        .listen(
            new IdleWatch(
                limit,
                hold.get().gpus(),
                parts.gpus()::nowNanos,
                () -> soon(() -> stopUnlessOver(order))));
  }

  private void stopUnlessOver(Stop order) {
    try {
      stop(order, false);
    } catch (BerthException e) {
      // It has ended in the same moment.
    }
  }

  private void endProgram(boolean force) {
    Duration grace = spec().limits().stopGrace();
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
    soon(
        () -> {
          try {
            parts.runtime().signal(record().id(), name);
          } catch (RuntimeException e) {
            log.warn("cannot send SIG{} to {}: {}", name, record().id(), e.getMessage());
          }
        });
  }

  private void checkStopped() {
    if (record().stop().isPresent() && !record().phase().isAtLeast(Phase.LAUNCHING)) {
      throw stopped();
    }
  }

  private BerthException stopped() {
    return new BerthException(
        Reason.CANCELLED,
        record().id() + " " + record().stop().map(Stop::message).orElse("was left"));
  }

  private static BerthException lost(String why) {
    return new BerthException(Reason.UNAVAILABLE, why);
  }

  private void changed() {
    listeners.forEach(Runnable::run);
  }
}
