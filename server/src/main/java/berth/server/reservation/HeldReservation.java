package berth.server.reservation;

import berth.host.lock.HeldGpus;
import berth.host.lock.HeldPorts;
import berth.host.lock.Keeper;
import berth.host.lock.Kept;
import berth.host.lock.KnownProcess;
import berth.host.lock.LockProtocol;
import berth.host.lock.PortRange;
import berth.host.lock.ProcessWatch;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation.Expiry;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A reservation together with what holds it: the locks of this process, keepers that hold them too,
 * or, if this process found it on its start and may not share the keepers', the keepers alone. One
 * keeper is the reservation's own, if it goes on without this process; each run that uses it has
 * another.
 *
 * <p>Any thread may call. Its own lock is held while it writes to disk and waits for keepers, so
 * never call with that of {@link Reservations}, except for what says that it does not wait.
 */
final class HeldReservation {
  private static final Logger log = LoggerFactory.getLogger(HeldReservation.class);

  /** A keeper that was just started, and what it has inherited. */
  private record Started(Keeper.Gated gated, Map<String, List<Integer>> descriptors) {
    Kept kept(Optional<Kept> former) {
      return new Kept(gated.keeper(), descriptors, former);
    }
  }

  /** A run's keeper. */
  private static final class Hold {
    private Kept kept;
    // Open until the keeper knows whom to live by; of an earlier daemon's keeper there is none.
    private Optional<Keeper.Gated> gate;
    private Optional<String> mark = Optional.empty();
    private OptionalInt pid = OptionalInt.empty();
    private Runnable onEnd = () -> {};
    private boolean told;

    Hold(Kept kept, Optional<Keeper.Gated> gate) {
      this.kept = kept;
      this.gate = gate;
    }
  }

  private final ReservationStore store;
  private final LockProtocol protocol;
  private final String requestId;
  private final Optional<HeldGpus> gpus;
  private final HeldPorts ports;
  private final boolean shared;
  private final boolean ofRun;
  private final Optional<KnownProcess> process;
  private final Map<String, Hold> holds = new LinkedHashMap<>();
  private volatile Reservation reservation;
  private volatile Optional<Kept> own = Optional.empty();
  private volatile Optional<ReservationListener> listener = Optional.empty();
  private Optional<Duration> lease;
  private Optional<Future<?>> expiration = Optional.empty();
  private Optional<ProcessWatch> watch = Optional.empty();
  private boolean ending;
  private boolean over;

  private HeldReservation(
      ReservationStore store,
      LockProtocol protocol,
      String requestId,
      Optional<HeldGpus> gpus,
      HeldPorts ports,
      boolean shared,
      boolean ofRun,
      Optional<KnownProcess> process,
      Reservation reservation,
      Optional<Duration> lease) {
    this.store = store;
    this.protocol = protocol;
    this.requestId = requestId;
    this.gpus = gpus;
    this.ports = ports;
    this.shared = shared;
    this.ofRun = ofRun;
    this.process = process;
    this.reservation = reservation;
    this.lease = lease;
  }

  /**
   * Makes a reservation of what was taken; a keeper and a record if it goes on without this
   * process. What was taken is its own if this succeeds, and stays the caller's if not.
   */
  static HeldReservation grant(
      String id,
      ReservationRequest request,
      Optional<HeldGpus> gpus,
      HeldPorts ports,
      LockProtocol protocol,
      ReservationStore store,
      Instant now,
      Function<Duration, Expiry> expiryIn) {
    Optional<Duration> lease = Optional.empty();
    Optional<KnownProcess> process = Optional.empty();
    if (request.lifetime() instanceof Lifetime.Renewals renewals) {
      lease = Optional.of(renewals.lease());
    } else if (request.lifetime() instanceof Lifetime.Lasting lasting) {
      lease = Optional.of(lasting.duration());
    } else if (request.lifetime() instanceof Lifetime.OfProcess of) {
      process = Optional.of(new KnownProcess(of.pid(), of.started()));
    }
    HeldReservation held =
        new HeldReservation(
            store,
            protocol,
            request.requestId(),
            gpus,
            ports,
            true,
            request.lifetime() instanceof Lifetime.OfRun,
            process,
            new Reservation(
                id,
                gpus.map(HeldGpus::gpus).orElse(List.of()),
                ports.ports(),
                request.owner(),
                request.purpose(),
                now,
                lease.map(expiryIn),
                process.map(of -> OptionalInt.of(of.pid())).orElse(OptionalInt.empty()),
                List.of(),
                "",
                request.lifetime().isRenewed()),
            lease);
    try {
      if (!held.guard()) {
        throw new BerthException(
            Reason.UNAVAILABLE,
            "lock files in " + protocol.folder().path() + " are being replaced");
      }
      held.keepFor(request.lifetime());
      return held;
    } catch (RuntimeException | Error e) {
      protocol.unguard(ports);
      throw e;
    }
  }

  private synchronized void keepFor(Lifetime lifetime) {
    if (lifetime instanceof Lifetime.Lasting lasting) {
      keepBy(start(inherited -> Keeper.lasting(lasting.duration(), inherited)));
    } else if (lifetime instanceof Lifetime.OfProcess of) {
      if (!process.orElseThrow().alive()) {
        throw new BerthException(
            Reason.NOT_FOUND, "process " + of.pid() + " of the reservation has ended meanwhile");
      }
      keepBy(start(inherited -> Keeper.untilEndOf(of.pid(), inherited)));
    } else if (lifetime instanceof Lifetime.OfRun of) {
      hold(of.runId());
    }
  }

  /**
   * Goes on with a reservation that keepers held meanwhile. Empty if somebody else has got its
   * locks, or the process it lives by has ended; nothing is left of it then.
   */
  static Optional<HeldReservation> recover(
      ReservationStore.Stored stored,
      LockProtocol protocol,
      PortRange range,
      ReservationStore store,
      Function<Expiry, Expiry> byThisClock) {
    Reservation reservation = stored.reservation();
    Optional<InheritedLocks> locks = InheritedLocks.of(stored, protocol.folder());
    Optional<HeldGpus> gpus = locks.flatMap(ours -> ours.gpus(reservation, protocol));
    HeldPorts ports =
        range.adopt(
            protocol.folder(),
            reservation.ports(),
            locks.map(ours -> ours.files(protocol.folder().ports())).orElse(List.of()));
    HeldReservation held =
        new HeldReservation(
            store,
            protocol,
            stored.requestId(),
            gpus,
            ports,
            locks.isPresent(),
            stored.ofRun(),
            stored.process(),
            reservation
                .expires()
                .map(expiry -> reservation.expiring(byThisClock.apply(expiry)))
                .orElse(reservation)
                .usedBy(stored.holds().keySet()),
            stored.lease());
    held.own = stored.own();
    stored.holds().forEach((run, kept) -> held.holds.put(run, new Hold(kept, Optional.empty())));
    boolean locked =
        gpus.map(taken -> taken.locks().lockAgain()).orElse(true) && ports.locks().lockAgain();
    boolean lives = stored.process().map(KnownProcess::alive).orElse(true);
    if (!locked || !lives && held.holds.isEmpty()) {
      log.warn(
          "{} is over: {}",
          reservation.id(),
          locked ? "its process has ended" : "its locks were released and taken by others");
      synchronized (held) {
        held.free(() -> {});
      }
      return Optional.empty();
    }
    held.guard();
    // The earlier daemon may have been killed before it replaced them all.
    held.lockedAnew();
    return Optional.of(held);
  }

  // Keepers must have what is locked anew, should this process be killed.
  private boolean guard() {
    gpus.ifPresent(taken -> taken.locks().whenLockedAnew(this::lockedAnew));
    ports.locks().whenLockedAnew(this::lockedAnew);
    return gpus.map(protocol::remember).orElse(true)
        && (ports.ports().isEmpty() || protocol.guard(ports));
  }

  private void lockedAnew() {
    protocol.retries().later(this::replaceKeepers);
  }

  /** As it is now; does not wait. */
  Reservation reservation() {
    return reservation;
  }

  String requestId() {
    return requestId;
  }

  /** The keeper of its own life; does not wait. */
  Optional<Keeper> keeper() {
    return own.map(Kept::keeper);
  }

  Optional<KnownProcess> process() {
    return process;
  }

  /** Replaces the caller who is told of its end; does not wait. */
  void listen(ReservationListener caller) {
    listener = Optional.of(caller);
  }

  /** Whether {@link #listen} had this caller last; does not wait. */
  boolean isCaller(ReservationListener caller) {
    return listener.equals(Optional.of(caller));
  }

  /**
   * Replaces the timer that ends it, if it has a lease. Whoever comes last sets it to the present
   * end, which a renewal may have moved just now.
   */
  synchronized void expireBy(Function<Expiry, Future<?>> timer) {
    expiration.ifPresent(older -> older.cancel(false));
    expiration =
        over || ending
            ? Optional.empty()
            : reservation.expires().map(expiry -> timer.apply(expiry));
  }

  /** Has what waits for the end of its process closed when it is free. */
  synchronized void watchedBy(ProcessWatch newer) {
    if (over) {
      newer.close();
    } else {
      watch = Optional.of(newer);
    }
  }

  /** Closes what waits for the end of its process. */
  synchronized void stopWatching() {
    watch.ifPresent(ProcessWatch::close);
    watch = Optional.empty();
  }

  /**
   * Adds a keeper for a run, unless it has one.
   *
   * @return false if the reservation is over
   */
  synchronized boolean hold(String runId) {
    if (over || holds.containsKey(runId)) {
      return !over;
    }
    if (ending) {
      throw new BerthException(
          Reason.CONFLICT, reservation.id() + " has ended; only the runs in it may finish");
    }
    if (!shared) {
      throw cannotShare("be used by another run");
    }
    Started started = start(Keeper::ofRun);
    Keeper.Gated gate = started.gated;
    holds.put(runId, new Hold(started.kept(Optional.empty()), Optional.of(gate)));
    reservation = reservation.usedBy(holds.keySet());
    try {
      save();
    } catch (RuntimeException | Error e) {
      holds.remove(runId);
      reservation = reservation.usedBy(holds.keySet());
      gate.kill();
      throw e;
    }
    gate.keep();
    return true;
  }

  /** Runs {@code action} when the reservation ends before the run does. */
  synchronized void onEnd(String runId, Runnable action) {
    Hold hold = holds.get(runId);
    if (hold != null) {
      hold.onEnd = action;
      hold.told = false;
      if (ending) {
        tell(hold);
      }
    }
  }

  synchronized void mark(String runId, String word) {
    Hold hold = holds.get(runId);
    if (hold != null) {
      openGate(hold);
      hold.mark = Optional.of(word);
      hold.gate.ifPresent(gate -> gate.mark(word));
    }
  }

  synchronized void livesBy(String runId, int pid) {
    Hold hold = holds.get(runId);
    if (hold != null) {
      openGate(hold);
      hold.pid = OptionalInt.of(pid);
      hold.gate.ifPresent(gate -> gate.livesBy(pid));
      hold.gate = Optional.empty();
    }
  }

  synchronized void holdBack(String why) {
    reservation = reservation.heldBack(why);
  }

  /** Takes a run's part away; frees everything if nothing keeps the reservation any more. */
  synchronized void unhold(String runId, Runnable first) {
    Hold hold = holds.get(runId);
    if (hold == null || over) {
      return;
    }
    if (holds.size() == 1 && (ofRun || ending)) {
      free(first);
      return;
    }
    holds.remove(runId);
    reservation = reservation.usedBy(holds.keySet());
    end(hold);
    if (holds.isEmpty() && own.isEmpty()) {
      store.delete(reservation.id());
    } else {
      trySave();
    }
  }

  private static void end(Hold hold) {
    hold.gate.ifPresent(Keeper.Gated::kill);
    hold.kept.kill();
  }

  // A keeper of an earlier daemon cannot be told anything, so another takes its place.
  private void openGate(Hold hold) {
    if (hold.gate.isEmpty() && shared) {
      replace(hold, false);
    }
  }

  // The former keeper stays in the record, so that one of the two is found whenever this process is
  // killed.
  private void replace(Hold hold, boolean withAllThatItKnows) {
    Kept older = hold.kept;
    Started started = start(Keeper::ofRun);
    Keeper.Gated gate = started.gated;
    hold.kept = started.kept(Optional.of(older));
    try {
      save();
    } catch (RuntimeException | Error e) {
      hold.kept = older;
      gate.kill();
      throw e;
    }
    gate.keep();
    if (!withAllThatItKnows) {
      hold.gate = Optional.of(gate);
      older.kill();
      return;
    }
    hold.mark.ifPresent(gate::mark);
    if (hold.gate.isPresent()) {
      hold.gate.get().kill();
      hold.gate = Optional.of(gate);
    } else if (hold.pid.isPresent()) {
      gate.livesBy(hold.pid.getAsInt());
      older.kill();
    } else {
      // What the keeper of an earlier daemon lives by is known to nobody else. As long as nobody
      // reaps it, it would seem to live.
      gate.livesBy(older.keeper().pid());
      older.keeper().ended();
    }
  }

  // Those that do not have a file which was locked anew. Fails unless all of them have it then.
  private synchronized void replaceKeepers() {
    if (over || !shared) {
      return;
    }
    Map<String, List<Integer>> descriptors = descriptors();
    attempt(
        Stream.concat(
            own.stream().filter(kept -> kept.lacks(descriptors)).map(kept -> this::replaceOwn),
            List.copyOf(holds.values()).stream()
                .filter(hold -> hold.kept.lacks(descriptors))
                .map(hold -> () -> replace(hold, true))));
  }

  /**
   * Its own time is over: frees everything, or if runs still use it tells them, and is free when
   * they have ended.
   *
   * @param first run before anybody is told, unless that happened before
   * @return whether it is free
   */
  synchronized boolean finish(Runnable first) {
    if (over) {
      return true;
    }
    if (holds.isEmpty()) {
      free(first);
      return true;
    }
    if (!ending) {
      ending = true;
      first.run();
    }
    // Again, should one not have heard of it at the first time.
    attempt(
        Stream.concat(
            expiration.stream().map(timer -> () -> timer.cancel(false)),
            List.copyOf(holds.values()).stream().map(hold -> () -> tell(hold))));
    return over;
  }

  private static void tell(Hold hold) {
    if (!hold.told) {
      hold.onEnd.run();
      hold.told = true;
    }
  }

  // All of them, also if one fails; then this fails too.
  private static void attempt(Stream<Runnable> steps) {
    List<Throwable> failures = new ArrayList<>();
    steps.forEach(
        step -> {
          try {
            step.run();
          } catch (RuntimeException | Error e) {
            failures.add(e);
          }
        });
    if (!failures.isEmpty()) {
      Throwable first = failures.get(0);
      failures.stream().skip(1).forEach(first::addSuppressed);
      if (first instanceof Error error) {
        throw error;
      }
      throw (RuntimeException) first;
    }
  }

  /** Frees everything, for a run that it was granted for too: nobody has heard of it yet. */
  synchronized void withdraw() {
    if (!over) {
      free(() -> {});
    }
  }

  /** Whether its own time is over, though runs may still use it. */
  synchronized boolean ending() {
    return ending;
  }

  /**
   * Prolongs it.
   *
   * @return false if it is over
   */
  synchronized boolean prolong(Optional<Duration> asked, Function<Duration, Expiry> expiryIn) {
    if (over) {
      return false;
    }
    if (lease.isEmpty() || ending) {
      throw new BerthException(Reason.CONFLICT, reservation.id() + whyItCannotBeProlonged());
    }
    if (own.isPresent() && !shared) {
      throw cannotShare("be renewed");
    }
    Duration next = asked.orElse(lease.get());
    Optional<Started> newer = own.map(older -> start(inherited -> Keeper.lasting(next, inherited)));
    lease = Optional.of(next);
    reservation = reservation.expiring(expiryIn.apply(next));
    if (newer.isEmpty()) {
      if (!holds.isEmpty()) {
        trySave();
      }
      return true;
    }
    Optional<Kept> older = own;
    try {
      keepBy(newer.get());
      older.ifPresent(Kept::kill);
    } catch (RuntimeException e) {
      // Should this process be killed too, the older keeper is not enough. But a full disk alone
      // must not end what runs.
      log.warn(
          "{} is renewed, but its record cannot be written: {}", reservation.id(), e.getMessage());
    }
    return true;
  }

  private String whyItCannotBeProlonged() {
    if (ending) {
      return " has ended";
    }
    return (process.isPresent()
            ? " lives as long as process " + process.get().pid()
            : ofRun ? " lives as long as its run" : " lives as long as its client listens")
        + " and needs no renewal";
  }

  /**
   * Starts another keeper in place of one that ended too early. False if this process has no part
   * in the locks, or it is over.
   */
  synchronized boolean replaceKeeper() {
    if (!shared || over) {
      return false;
    }
    replaceOwn();
    return true;
  }

  private void replaceOwn() {
    Optional<Kept> older = own;
    if (process.isPresent()) {
      keepBy(start(inherited -> Keeper.untilEndOf(process.get().pid(), inherited)));
    } else {
      long left = reservation.expires().orElseThrow().nanos() - protocol.nowNanos();
      keepBy(start(inherited -> Keeper.lasting(Duration.ofNanos(Math.max(0, left)), inherited)));
    }
    older.ifPresent(Kept::kill);
  }

  // Keepers first, then the record, then the locks. Whoever kills this process in between leaves a
  // record without a living keeper, which the next one drops, and locks that end with this process.
  private void free(Runnable first) {
    over = true;
    boolean recorded = own.isPresent() || !holds.isEmpty();
    List<Runnable> steps = new ArrayList<>();
    steps.add(first);
    steps.add(this::stopWatching);
    expiration.ifPresent(timer -> steps.add(() -> timer.cancel(false)));
    // Without the locks of this process, the GPUs are free as soon as the keepers have ended.
    reservation.gpus().forEach(gpu -> steps.add(() -> protocol.freed(gpu.index())));
    own.ifPresent(kept -> steps.add(kept::kill));
    own = Optional.empty();
    List.copyOf(holds.values()).forEach(hold -> steps.add(() -> end(hold)));
    holds.clear();
    if (recorded) {
      steps.add(() -> store.delete(reservation.id()));
    }
    gpus.ifPresent(taken -> steps.add(taken::close));
    steps.add(() -> protocol.unguard(ports));
    steps.add(ports::close);
    listener.ifPresent(caller -> steps.add(caller::ended));
    attempt(steps.stream());
  }

  // The former keeper stays in the record, so that one of the two is found whenever this process is
  // killed.
  private void keepBy(Started started) {
    Optional<Kept> older = own;
    own = Optional.of(started.kept(older));
    try {
      save();
    } catch (RuntimeException | Error e) {
      own = older;
      started.gated.kill();
      throw e;
    }
    started.gated.goOn();
  }

  // For what must go on also when it cannot be written down. What is left on disk then knows
  // keepers
  // that have ended, or an older lease: less than is held, never more.
  private void trySave() {
    try {
      save();
    } catch (RuntimeException e) {
      log.warn("the record of {} cannot be written: {}", reservation.id(), e.getMessage());
    }
  }

  private void save() {
    Map<String, Kept> byRun = new LinkedHashMap<>();
    holds.forEach((run, hold) -> byRun.put(run, hold.kept));
    store.save(
        new ReservationStore.Stored(reservation, requestId, ofRun, lease, process, own, byRun));
  }

  private Started start(Function<List<Integer>, Keeper.Gated> keeper) {
    // Looked at once: meanwhile a file may be locked anew.
    Map<String, List<Integer>> descriptors = descriptors();
    return new Started(
        keeper.apply(descriptors.values().stream().flatMap(List::stream).toList()), descriptors);
  }

  private Map<String, List<Integer>> descriptors() {
    Map<String, List<Integer>> descriptors = new LinkedHashMap<>();
    gpus.ifPresent(taken -> descriptors.putAll(taken.locks().descriptors()));
    descriptors.putAll(ports.locks().descriptors());
    return descriptors;
  }

  private BerthException cannotShare(String what) {
    return new BerthException(
        Reason.CONFLICT,
        reservation.id()
            + " cannot "
            + what
            + ": the server has restarted since, and only as root can it take over the locks");
  }
}
