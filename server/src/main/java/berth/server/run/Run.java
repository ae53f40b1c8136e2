package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation;
import berth.server.reservation.RunHold;
import berth.server.run.GrantWait.Served;
import berth.server.run.RunEngine.Exit;
import berth.server.run.RunEngine.Pull;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The life of one run, from its acceptance until nothing is left of it but its output. One thread
 * goes through it, in {@link #carryOut}; a restarted daemon goes through it again, and finds at
 * each step what the earlier one has done. Any thread may call the rest. The locks of its parts may
 * be taken with its own, never the other way round.
 */
final class Run {
  private static final Logger log = LoggerFactory.getLogger(Run.class);
  private static final Duration SAVE_AGAIN = Duration.ofSeconds(1);

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

  private final RunContext context;
  // Without what only its start needs, which is on disk: many may wait, and runs are kept for long.
  // Empty for one that is over: it is read when asked for.
  private volatile Optional<RequestedRun> spec;
  private final RunFolder folder;
  private final SavedRecord saved;
  private final boolean sameBoot;
  private final boolean damaged;
  private final OptionalLong acceptedNanos;
  private final RunTasks tasks;
  private final CallerWatch caller;
  private final ServerWait waiting;
  private final RunContent content;
  private final LiveOutput output;
  private final ProgramStart program;
  private final LimitWatch limits;
  private final GpuRelease release;
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private final CompletableFuture<Void> cleaned = new CompletableFuture<>();

  // Of the thread that carries it out.
  private Runnable unattend = () -> {};
  private long inLineNanos;
  private OptionalLong exitNanos = OptionalLong.empty();
  // Whether an earlier daemon may have made something for GPUs that it has no more.
  private boolean lostHold;

  // With the lock.
  private boolean begun;
  private OptionalInt ahead = OptionalInt.empty();
  private Optional<Reservation> reservation = Optional.empty();
  private Optional<BerthException> failure = Optional.empty();
  private Runnable leaveQueue = () -> {};
  private boolean ending;
  private boolean forced;
  private Thread thread;

  private Run(RunContext context, RunStore.Stored stored, OptionalLong acceptedNanos) {
    this.context = context;
    this.spec = stored.spec();
    this.folder = stored.folder();
    this.saved = new SavedRecord(context.store(), context.threads(), stored.record());
    this.sameBoot = stored.sameBoot();
    this.damaged = stored.damaged();
    this.acceptedNanos = acceptedNanos;
    String id = stored.record().id();
    boolean detached = stored.spec().map(RequestedRun::detached).orElse(true);
    tasks = new RunTasks(context, id);
    caller =
        new CallerWatch(
            context.callerGrace(),
            tasks,
            () -> detached || over() || context.closed(),
            () -> stopUnlessOver(new Stop(ExitReason.CANCELLED, "client disconnected")));
    waiting = new ServerWait(context, folder, saved, this::changed);
    content = new RunContent(context, id, folder);
    output = new LiveOutput(context, id, folder, this::grown);
    program = new ProgramStart(context, folder, saved, waiting, content, output, this::changed);
    limits = new LimitWatch(context, id, folder, tasks, this::stopUnlessOver);
    release = new GpuRelease(context, id, this::changed);
    if (stored.record().phase() == Phase.CLEANED) {
      cleaned.complete(null);
    }
  }

  /** A new run, which is on disk already. */
  static Run accepted(RunContext context, RunFolder folder, RunRecord record, RequestedRun spec) {
    return new Run(
        context,
        new RunStore.Stored(folder, record, Optional.of(spec), true, false),
        OptionalLong.of(System.nanoTime()));
  }

  /** A run of an earlier process. */
  static Run recovered(RunContext context, RunStore.Stored stored) {
    return new Run(context, stored, OptionalLong.empty());
  }

  private RunRecord record() {
    return saved.get();
  }

  String id() {
    return record().id();
  }

  /** What was asked for, as far as lists show it. */
  RequestedRun spec() {
    return spec.orElseGet(() -> context.store().shown(folder));
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
    String heldBack = release.heldBack();
    RunRecord record = record();
    boolean over = record.phase().isAtLeast(Phase.ENDED);
    return new View(
        record,
        record.started().or(program::seenToRun),
        ahead,
        waiting.reason(),
        reservation,
        program.pull(),
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
  Optional<Spool> liveOutput() {
    return over() ? Optional.empty() : output.spool();
  }

  /**
   * Starts to carry it out, or to go on with it; once. If it has to queue, it is in the line when
   * this returns, and needs no thread until it is served.
   */
  void start() {
    boolean waits = record().phase() == Phase.QUEUED;
    if (acceptedNanos.isEmpty() && spec().holdsSomething() && !over()) {
      lostHold = context.reservations().heldBy(id(), this::reservationEnded).isEmpty();
      // Also one that had its GPUs before the machine was rebooted: it came before those who wait.
      waits = lostHold && !record().phase().isAtLeast(Phase.LAUNCHING);
    }
    waits &= spec().needsReservation() && record().stop().isEmpty();
    synchronized (this) {
      if (begun) {
        return;
      }
      begun = true;
    }
    caller.watch();
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
      if (waiting.because("the server cannot start a thread")) {
        log.error("{}: cannot start a thread; retrying", id(), e);
      }
      tasks.retry(() -> begin(served));
    }
  }

  private synchronized void startThread(Served served) {
    if (!context.closed()) {
      Thread next = context.runThreads().newThread(() -> carryOut(served));
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
    }
    tasks.cancelTimers();
    caller.cancel();
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
    output.close();
  }

  /**
   * A caller listens who keeps it alive, if it is not detached. Run the result when it has gone.
   */
  Runnable hold() {
    return caller.hold();
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
      log.info("stopping {}: {}", id(), order.message());
    }
    // A program may print, and be cancelled for that, before its start is noted.
    boolean running;
    Runnable leave;
    synchronized (this) {
      forced |= force;
      running = record().phase() == Phase.RUNNING;
      leave = leaveQueue;
    }
    waiting.wake();
    leave.run();
    if (running) {
      endProgram(force);
    }
  }

  private void carryOut(Served served) {
    try {
      waiting.because("");
      inLineNanos = served.nanos();
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
            unattend = context.gpus().attend();
          }
          launch(hold);
          end = awaitEnd(hold);
        } catch (BerthException e) {
          context.leaveIfClosed();
          end = failed(e);
        } catch (RuntimeException e) {
          context.leaveIfClosed();
          log.error("{}: unexpected failure", id(), e);
          end = failed(new BerthException(Reason.INTERNAL, "unexpected failure of the server", e));
        }
        finish(end);
      }
      cleanUp(hold.or(() -> context.reservations().heldBy(id(), () -> {})));
    } catch (InterruptedException e) {
      // The daemon stops, and the next one goes on.
    } catch (RuntimeException e) {
      if (!context.closed()) {
        log.error("{}: unexpected failure", id(), e);
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

  private void reservationEnded() {
    tasks.soon(() -> stopUnlessOver(new Stop(ExitReason.CANCELLED, "reservation ended")));
  }

  /** Gets what the run holds; empty if it has to queue for that. */
  private Optional<Optional<RunHold>> reserve(Served served) throws InterruptedException {
    Optional<RunHold> hold = context.reservations().heldBy(id(), this::reservationEnded);
    if (lostHold) {
      if (record().phase().isAtLeast(Phase.LAUNCHING) && (!sameBoot || damaged)) {
        // Never started again, so it needs no GPUs.
        return Optional.of(hold);
      }
      // Made for GPUs that may be another's by now.
      if (!folder.started()) {
        release.remove();
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
      leaveQueue = () -> {};
      reservation = hold.map(RunHold::reservation);
    }
    waiting.because("");
    if (!record().phase().isAtLeast(Phase.PREPARING)) {
      saved.noteSoon(now -> now.at(Phase.PREPARING));
    }
    changed();
    checkStopped();
    return Optional.of(hold);
  }

  private RunHold holdWhenPossible(String reservationId) throws InterruptedException {
    List<RunHold> held = new ArrayList<>();
    waiting.untilDone(
        waiting.troubleOf(spec()),
        () -> held.add(context.reservations().hold(reservationId, id(), this::reservationEnded)));
    return held.get(0);
  }

  // Its keeper is gone, so its GPUs may be another's: it must not run on.
  private void endIfItStillRuns() throws InterruptedException {
    Launch launch = content.plan(Optional.empty());
    // Was started before, so this only looks. A keeper ends with the program, and nothing is lost
    // then.
    boolean runs = context.runtime().start(launch).pid().isPresent();
    if (runs && record().stop().isEmpty()) {
      log.error("{}: GPU locks lost; stopping it", id());
      Stop order = new Stop(ExitReason.SERVER_LOST, "GPU locks were lost while berthd was down");
      saved.note(now -> now.stopping(order));
    }
  }

  /** Takes a place in the queue for GPUs, and goes on when that has come to something. */
  private void joinLine() {
    Consumer<BerthException> leave = new GrantWait(context, id(), tasks, new InLine()).join(spec());
    synchronized (this) {
      leaveQueue = () -> leave.accept(RunOutcome.stopped(record()));
    }
    if (record().stop().isPresent()) {
      leave.accept(RunOutcome.stopped(record()));
    }
  }

  private final class InLine implements GrantWait.Waiter {
    @Override
    public void queued(int before, String because) {
      synchronized (Run.this) {
        ahead = OptionalInt.of(before);
      }
      if (!waiting.because(because)) {
        changed();
      }
    }

    @Override
    public void served(Served served) {
      begin(served);
    }
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
          .ifPresent(pid -> program.tellKeeper(hold, pid));
    }
    if (hold.isEmpty() && spec().holdsSomething() && sameBoot) {
      waiting.untilDone(waiting.troubleOf(spec()), this::endIfItStillRuns);
    }
    limits.watchTime(record().started().orElseThrow(), spec().limits().warning(), this::signal);
    if (record().stop().isPresent()) {
      endProgram(isForced() || record().stop().get().reason() == ExitReason.SERVER_LOST);
    }
    if (!output.isOpen()) {
      // Of one that runs: its limits hold meanwhile, and what it prints is on disk.
      waiting.untilDone(waiting.troubleOf(spec()), output::open);
    }
  }

  private void startProgram(Optional<RunHold> hold) throws InterruptedException {
    if (record().phase().isAtLeast(Phase.LAUNCHING)) {
      if (!sameBoot) {
        // Whether or not the mark of its start was on disk by then.
        throw lost(RunOutcome.REBOOTED);
      }
      if (damaged && !folder.started()) {
        throw lost("its state record was damaged, and it may have been started already");
      }
    }
    Started started = program.start(spec(), hold);
    saved.noteSoon(now -> now.running(started));
    acceptedNanos.ifPresent(
        accepted -> context.metrics().started(started.nanos() - accepted - inLineNanos));
    changed();
  }

  private void grown(long bytes) {
    program.printed(bytes);
    changed();
  }

  private Ended awaitEnd(Optional<RunHold> hold) throws InterruptedException {
    Runnable unwatch = limits.watchUse(spec().limits().idle(), hold);
    try {
      Exit exit = context.runtime().await(id());
      exitNanos = OptionalLong.of(context.gpus().nowNanos());
      return outcome().of(exit);
    } finally {
      unwatch.run();
      tasks.cancelTimers();
    }
  }

  private synchronized RunOutcome outcome() {
    int gpus = reservation.map(held -> held.gpus().size()).orElse(0);
    return new RunOutcome(record(), sameBoot, gpus, limits.peakMemory());
  }

  private Ended failed(BerthException e) {
    // Whatever failed then, the order to stop is what its caller wants to know.
    BerthException told = record().stop().isPresent() ? RunOutcome.stopped(record()) : e;
    synchronized (this) {
      failure = Optional.of(told);
    }
    Optional<Started> seen = program.seenToRun();
    if (record().started().isEmpty() && seen.isPresent()) {
      // Its caller has been told so.
      saved.note(now -> now.running(seen.get()));
    }
    return outcome().of(told);
  }

  /** Notes the end, when all of the output is there. */
  private void finish(Ended end) throws InterruptedException {
    LiveOutput.Kept kept = output.complete(record().phase().isAtLeast(Phase.LAUNCHING));
    saved.note(now -> now.ended(end.withOutput(kept.bytes())), kept.files());
    caller.cancel();
    output.count();
    context.metrics().ended(end);
    log.info(
        "{} of {} ended: {}{}{}",
        id(),
        spec().owner(),
        end.reason(),
        end.reason() == ExitReason.FINISHED ? " with exit code " + end.exitCode() : "",
        end.message().isEmpty() ? "" : ", " + end.message());
    changed();
  }

  /** Frees what it held, and removes what is left of it. */
  private void cleanUp(Optional<RunHold> hold) throws InterruptedException {
    if (record().phase() == Phase.CLEANED) {
      finishCleaning();
      return;
    }
    if (hold.isPresent() && exitNanos.isPresent()) {
      // What ran has ended, so its GPUs can be looked at while the rest of it is removed.
      context.gpus().wantSample();
    }
    release.remove();
    if (hold.isPresent()) {
      release.free(hold.get(), exitNanos.orElseGet(context.gpus()::nowNanos));
    }
    boolean pipesDeleted = deletePipesIfSaved();
    release.done();
    // Its caller need not wait for that to be on disk: what comes before it is.
    saved.noteSoon(now -> now.at(Phase.CLEANED));
    finishCleaning();
    awaitSaved(pipesDeleted);
  }

  private void finishCleaning() {
    changed();
    cleaned.complete(null);
    context.onCleaned().accept(this);
    output.release();
    spec = Optional.empty();
  }

  // One whose end is not written down must not lose the mark of its start too: the next daemon
  // would start it again.
  private boolean deletePipesIfSaved() {
    boolean all = saved.saveAgain();
    if (all) {
      folder.deleteForProgram();
    }
    return all;
  }

  private void awaitSaved(boolean pipesDeleted) throws InterruptedException {
    // It may be removed meanwhile.
    while (folder.exists() && !context.closed()) {
      if (pipesDeleted ? saved.saveAgain() : deletePipesIfSaved()) {
        return;
      }
      Thread.sleep(SAVE_AGAIN.toMillis());
    }
  }

  private void stopUnlessOver(Stop order) {
    try {
      stop(order, false);
    } catch (BerthException e) {
      // It has ended in the same moment.
    }
  }

  private synchronized boolean isForced() {
    return forced;
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
    tasks.after(grace, () -> signal("KILL"));
  }

  // On a thread of its own: the engine may take its time.
  private void signal(String name) {
    tasks.soon(
        () -> {
          try {
            context.runtime().signal(id(), name);
          } catch (RuntimeException e) {
            log.warn("cannot send SIG{} to {}: {}", name, id(), e.getMessage());
          }
        });
  }

  private void checkStopped() {
    if (record().stop().isPresent() && !record().phase().isAtLeast(Phase.LAUNCHING)) {
      throw RunOutcome.stopped(record());
    }
  }

  private static BerthException lost(String why) {
    return new BerthException(Reason.UNAVAILABLE, why);
  }

  private void changed() {
    listeners.forEach(Runnable::run);
  }
}
