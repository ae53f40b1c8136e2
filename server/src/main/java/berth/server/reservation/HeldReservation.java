package berth.server.reservation;

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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A reservation together with what holds it: the locks of this process, keepers that hold them too,
 * or, if this process found it on its start and may not share the keepers', the keepers alone. One
 * keeper is the reservation's own, if it goes on without this process; each run that uses it has
 * another. Guarded by the lock of {@link Reservations}.
 */
final class HeldReservation {
  private static final Logger log = LoggerFactory.getLogger(HeldReservation.class);

  /** What a keeper has inherited: descriptors of the GPUs' lock files, and of the ports'. */
  record Kept(Keeper keeper, List<Integer> gpuDescriptors, List<Integer> portDescriptors) {}

  /** A run's keeper. */
  private static final class Hold {
    private Kept kept;
    // Open until the keeper knows whom to live by; of an earlier daemon's keeper there is none.
    private Optional<Keeper.Gated> gate;
    private Runnable onEnd = () -> {};

    Hold(Kept kept, Optional<Keeper.Gated> gate) {
      this.kept = kept;
      this.gate = gate;
    }
  }

  private final ReservationStore store;
  private final String requestId;
  private final Optional<HeldGpus> gpus;
  private final HeldPorts ports;
  private final boolean shared;
  private final boolean ofRun;
  private final Map<String, Hold> holds = new LinkedHashMap<>();
  private Reservation reservation;
  private Optional<Kept> own = Optional.empty();
  private Optional<Duration> lease;
  private Optional<ReservationListener> listener = Optional.empty();
  private Optional<Future<?>> expiration = Optional.empty();
  private boolean ending;

  private HeldReservation(
      ReservationStore store,
      String requestId,
      Optional<HeldGpus> gpus,
      HeldPorts ports,
      boolean shared,
      boolean ofRun,
      Reservation reservation,
      Optional<Duration> lease) {
    this.store = store;
    this.requestId = requestId;
    this.gpus = gpus;
    this.ports = ports;
    this.shared = shared;
    this.ofRun = ofRun;
    this.reservation = reservation;
    this.lease = lease;
  }

  /**
   * Makes a reservation of what was taken; a keeper and a record if it goes on without this
   * process.
   */
  static HeldReservation grant(
      String id,
      ReservationRequest request,
      Optional<HeldGpus> gpus,
      HeldPorts ports,
      ReservationStore store,
      Instant now,
      Function<Duration, Expiry> expiryIn) {
    Optional<Duration> lease = Optional.empty();
    OptionalInt process = OptionalInt.empty();
    if (request.lifetime() instanceof Lifetime.Renewals renewals) {
      lease = Optional.of(renewals.lease());
    } else if (request.lifetime() instanceof Lifetime.Lasting lasting) {
      lease = Optional.of(lasting.duration());
    } else if (request.lifetime() instanceof Lifetime.OfProcess of) {
      process = OptionalInt.of(of.pid());
    }
    HeldReservation held =
        new HeldReservation(
            store,
            request.requestId(),
            gpus,
            ports,
            true,
            request.lifetime() instanceof Lifetime.OfRun,
            new Reservation(
                id,
                gpus.map(HeldGpus::gpus).orElse(List.of()),
                ports.ports(),
                request.owner(),
                request.purpose(),
                now,
                lease.map(expiryIn),
                process,
                List.of(),
                ""),
            lease);
    if (request.lifetime() instanceof Lifetime.Lasting lasting) {
      held.keepBy(Keeper.lasting(lasting.duration(), held.descriptors()));
    } else if (request.lifetime() instanceof Lifetime.OfProcess of) {
      held.keepBy(Keeper.untilEndOf(of.pid(), held.descriptors()));
    } else if (request.lifetime() instanceof Lifetime.OfRun of) {
      held.hold(of.runId());
    }
    return held;
  }

  /** Goes on with a reservation that keepers held meanwhile. */
  static HeldReservation recover(
      ReservationStore.Stored stored, LockProtocol protocol, ReservationStore store) {
    Reservation reservation = stored.reservation();
    List<Kept> keepers = new ArrayList<>(stored.holds().values());
    stored.own().ifPresent(keepers::add);
    Optional<HeldGpus> gpus = Optional.empty();
    HeldPorts ports = new HeldPorts(reservation.ports(), null);
    boolean shared = false;
    for (Kept kept : keepers) {
      List<Integer> theirs = new ArrayList<>(kept.gpuDescriptors);
      theirs.addAll(kept.portDescriptors);
      Optional<List<Integer>> ours = kept.keeper.share(theirs);
      if (!shared && ours.isPresent()) {
        shared = true;
        int gpuFiles = kept.gpuDescriptors.size();
        if (gpuFiles > 0) {
          gpus = Optional.of(adopt(reservation, protocol, ours.get().subList(0, gpuFiles)));
        }
        if (!kept.portDescriptors.isEmpty()) {
          ports =
              new HeldPorts(
                  reservation.ports(),
                  LockFile.adopt(protocol.folder().ports(), ours.get().get(gpuFiles)));
        }
        break;
      }
    }
    HeldReservation held =
        new HeldReservation(
            store,
            stored.requestId(),
            gpus,
            ports,
            shared,
            stored.ofRun(),
            reservation.usedBy(stored.holds().keySet()),
            reservation
                .expires()
                .map(expiry -> Duration.between(reservation.granted(), expiry.wall())));
    held.own = stored.own();
    stored.holds().forEach((run, kept) -> held.holds.put(run, new Hold(kept, Optional.empty())));
    return held;
  }

  private static HeldGpus adopt(
      Reservation reservation, LockProtocol protocol, List<Integer> descriptors) {
    List<LockFile> files = new ArrayList<>();
    for (int i = 0; i < descriptors.size(); i++) {
      // More files than GPUs: those that were locked anew, see HeldGpus.
      int gpu = Math.min(i, reservation.gpus().size() - 1);
      files.add(
          LockFile.adopt(
              protocol.folder().gpu(reservation.gpus().get(gpu).index()), descriptors.get(i)));
    }
    HeldGpus held = new HeldGpus(protocol, reservation.gpus(), files);
    protocol.remember(held);
    return held;
  }

  Reservation reservation() {
    return reservation;
  }

  String requestId() {
    return requestId;
  }

  Optional<Keeper> keeper() {
    return own.map(Kept::keeper);
  }

  boolean held() {
    return !holds.isEmpty();
  }

  void listen(ReservationListener caller) {
    listener = Optional.of(caller);
  }

  /** Replaces the timer that ends it. */
  void expiration(Future<?> newer) {
    expiration.ifPresent(older -> older.cancel(false));
    expiration = Optional.of(newer);
  }

  /** Adds a keeper for a run, unless it has one. */
  void hold(String runId) {
    if (holds.containsKey(runId)) {
      return;
    }
    if (ending) {
      throw new BerthException(
          Reason.CONFLICT, reservation.id() + " has ended; only the runs in it may finish");
    }
    if (!shared) {
      throw cannotShare("be used by another run");
    }
    Keeper.Gated gate = Keeper.ofRun(descriptors());
    holds.put(runId, new Hold(kept(gate.keeper()), Optional.of(gate)));
    reservation = reservation.usedBy(holds.keySet());
    try {
      save();
    } catch (BerthException e) {
      holds.remove(runId);
      gate.kill();
      throw e;
    }
    gate.keep();
  }

  /** Runs {@code action} when the reservation ends before the run does. */
  void onEnd(String runId, Runnable action) {
    Hold hold = holds.get(runId);
    hold.onEnd = action;
    if (ending) {
      action.run();
    }
  }

  boolean heldBy(String runId) {
    return holds.containsKey(runId);
  }

  void mark(String runId, String word) {
    Hold hold = holds.get(runId);
    if (hold.gate.isEmpty() && shared) {
      replace(hold, Keeper.ofRun(descriptors()));
    }
    hold.gate.ifPresent(gate -> gate.mark(word));
  }

  void livesBy(String runId, int pid) {
    Hold hold = holds.get(runId);
    if (hold.gate.isEmpty() && shared) {
      replace(hold, Keeper.ofRun(descriptors()));
    }
    hold.gate.ifPresent(gate -> gate.livesBy(pid));
    hold.gate = Optional.empty();
  }

  void holdBack(String why) {
    reservation = reservation.heldBack(why);
  }

  /** Takes a run's part away; returns whether nothing keeps the reservation any more. */
  boolean unhold(String runId) {
    Hold hold = holds.remove(runId);
    if (hold == null) {
      return false;
    }
    reservation = reservation.usedBy(holds.keySet());
    boolean last = holds.isEmpty() && (ofRun || ending);
    if (!last) {
      // Of the last one the keeper goes after the locks.
      if (holds.isEmpty() && own.isEmpty()) {
        store.delete(reservation.id());
      } else {
        trySave();
      }
      end(hold);
      return false;
    }
    holds.put(runId, hold);
    return true;
  }

  private void end(Hold hold) {
    hold.gate.ifPresentOrElse(Keeper.Gated::kill, hold.kept.keeper::kill);
  }

  // A keeper of an earlier daemon cannot be told anything, so another takes its place.
  private void replace(Hold hold, Keeper.Gated gate) {
    Keeper older = hold.kept.keeper;
    hold.kept = kept(gate.keeper());
    hold.gate = Optional.of(gate);
    try {
      save();
    } catch (BerthException e) {
      gate.kill();
      throw e;
    }
    gate.keep();
    older.kill();
  }

  /** Whether its own time is over, though runs may still use it. */
  boolean ending() {
    return ending;
  }

  /** Its own time is over, but runs still use it: tells them, and is free when they have ended. */
  void endWithRuns() {
    if (!ending) {
      ending = true;
      expiration.ifPresent(timer -> timer.cancel(false));
      List.copyOf(holds.values()).forEach(hold -> hold.onEnd.run());
    }
  }

  void prolong(Optional<Duration> asked, Function<Duration, Expiry> expiryIn) {
    if (lease.isEmpty() || ending) {
      throw new BerthException(
          Reason.CONFLICT,
          reservation.id()
              + (ending
                  ? " has ended"
                  : reservation.process().isPresent()
                      ? " lives as long as process " + reservation.process().getAsInt()
                      : ofRun
                          ? " lives as long as its run"
                          : " lives as long as its caller listens")
              + (ending ? "" : " and needs no renewal"));
    }
    Duration next = asked.orElse(lease.get());
    Optional<Kept> older = own;
    Optional<Keeper.Gated> newer = Optional.empty();
    if (older.isPresent()) {
      if (!shared) {
        throw cannotShare("be prolonged");
      }
      newer = Optional.of(Keeper.lasting(next, descriptors()));
    }
    lease = Optional.of(next);
    reservation = reservation.expiring(expiryIn.apply(next));
    if (newer.isEmpty()) {
      if (held()) {
        trySave();
      }
      return;
    }
    try {
      keepBy(newer.get());
      older.ifPresent(kept -> kept.keeper.kill());
    } catch (BerthException e) {
      // Should this process be killed too, the older keeper is not enough. But a full disk alone
      // must not end what runs.
      log.warn(
          "{} is prolonged, but that cannot be written down: {}", reservation.id(), e.getMessage());
    }
  }

  /**
   * Starts another keeper in place of one that ended too early. False if this process has no part
   * in the locks.
   */
  boolean replaceKeeper(long nowNanos) {
    if (!shared) {
      return false;
    }
    keepBy(
        reservation.process().isPresent()
            ? Keeper.untilEndOf(reservation.process().getAsInt(), descriptors())
            : Keeper.lasting(
                Duration.ofNanos(reservation.expires().orElseThrow().nanos() - nowNanos),
                descriptors()));
    return true;
  }

  /** Frees everything, and tells the caller if there is one. */
  void free(LockProtocol protocol) {
    expiration.ifPresent(timer -> timer.cancel(false));
    reservation.gpus().forEach(gpu -> protocol.freed(gpu.index()));
    gpus.ifPresent(HeldGpus::close);
    ports.close();
    boolean recorded = own.isPresent() || held();
    own.ifPresent(kept -> kept.keeper.kill());
    own = Optional.empty();
    holds.values().forEach(this::end);
    holds.clear();
    if (recorded) {
      store.delete(reservation.id());
    }
    listener.ifPresent(ReservationListener::ended);
  }

  private void keepBy(Keeper.Gated gated) {
    Optional<Kept> older = own;
    own = Optional.of(kept(gated.keeper()));
    try {
      save();
    } catch (BerthException e) {
      own = older;
      gated.kill();
      throw e;
    }
    gated.goOn();
  }

  // For what must go on also when it cannot be written down. What is left on disk then knows
  // keepers
  // that have ended, or an older lease: less than is held, never more.
  private void trySave() {
    try {
      save();
    } catch (BerthException e) {
      log.warn("what becomes of {} cannot be written down: {}", reservation.id(), e.getMessage());
    }
  }

  private void save() {
    Map<String, Kept> byRun = new LinkedHashMap<>();
    holds.forEach((run, hold) -> byRun.put(run, hold.kept));
    store.save(new ReservationStore.Stored(reservation, requestId, ofRun, own, byRun));
  }

  private Kept kept(Keeper keeper) {
    return new Kept(keeper, gpus.map(HeldGpus::descriptors).orElse(List.of()), ports.descriptors());
  }

  private List<Integer> descriptors() {
    List<Integer> descriptors = new ArrayList<>(gpus.map(HeldGpus::descriptors).orElse(List.of()));
    descriptors.addAll(ports.descriptors());
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
