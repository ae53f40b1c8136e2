package berth.server.reservation;

import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.gpu.Gpu;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Overview.LockedByOther;
import berth.server.reservation.Overview.UnreservedUse;
import berth.server.reservation.Overview.Waiting;
import berth.server.reservation.Reservation.Expiry;
import berth.server.reservation.WaitingLine.Pending;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Who holds which GPUs and ports of this machine, for how long, and who waits for them.
 *
 * <p>Any thread may call; only {@link #close} waits for anything.
 */
public final class Reservations implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Reservations.class);

  /** For a request that names no other. */
  public static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);

  private static final Duration STOP_GRACE = Duration.ofSeconds(2);

  /** Where the locks and the records are, and what is given out. */
  public record Settings(
      String serverName,
      Path lockFolder,
      Path stateFolder,
      String portRange,
      boolean ignoreStrangers) {}

  private final String serverName;
  private final GpuMonitor gpus;
  private final LockFolder folder;
  private final LockProtocol protocol;
  private final WaitingLine line;
  private final PortRange ports;
  private final ReservationStore store;
  private final LongSupplier nanoClock;
  private final Clock wallClock;
  private final ReservationMetrics metrics;
  private final SecureRandom random = new SecureRandom();
  private final ScheduledThreadPoolExecutor timer =
      new ScheduledThreadPoolExecutor(1, daemonThreads("reservation-timer"));

  private final Map<String, HeldReservation> held = new LinkedHashMap<>();
  private boolean draining;
  private boolean closed;

  private Reservations(
      Settings settings,
      GpuMonitor gpus,
      Metrics metrics,
      LongSupplier nanoClock,
      Clock wallClock) {
    this.serverName = settings.serverName;
    this.gpus = gpus;
    this.folder = new LockFolder(settings.lockFolder);
    this.ports = PortRange.parse(settings.portRange);
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    folder.prepare(gpus.newest().gpus().size());
    this.store = new ReservationStore(settings.stateFolder);
    this.protocol = new LockProtocol(folder, gpus, settings.ignoreStrangers);
    this.line = new WaitingLine(this, protocol, timer, this::grant);
    timer.setRemoveOnCancelPolicy(true);
    this.metrics =
        new ReservationMetrics(
            metrics,
            readings ->
                ReservationMetrics.read(
                    overview(), gpus.newest(), nanoClock.getAsLong(), readings));
  }

  /**
   * Takes up the reservations that went on since an earlier daemon, and starts to serve.
   *
   * @throws BerthException if the lock folder or the state folder cannot be used
   */
  public static Reservations open(Settings settings, GpuMonitor gpus, Metrics metrics) {
    Reservations reservations =
        new Reservations(settings, gpus, metrics, System::nanoTime, Clock.systemUTC());
    reservations.recover();
    reservations.line.start();
    return reservations;
  }

  /** Whether a server of this machine, this one included, uses a state folder. */
  public static boolean serves(Path stateFolder) {
    return ReservationStore.inUse(stateFolder);
  }

  /**
   * Asks for a reservation; the listener is told what becomes of it.
   *
   * @return to be run when the caller has gone: leaves the line, and ends a reservation that lives
   *     by the caller
   * @throws BerthException if it can never be granted, or nothing is granted at present
   */
  public Runnable reserve(ReservationRequest request, ReservationListener listener) {
    check(request.gpus(), request.ports());
    if (request.gpus().isEmpty()) {
      HeldReservation granted = grantUnlessKnown(request, listener);
      return () -> callerOf(request, granted.reservation().id());
    }
    Pending pending;
    synchronized (this) {
      refuseIfNotServing();
      Optional<HeldReservation> known = known(request.requestId());
      if (known.isPresent()) {
        String id = known.get().reservation().id();
        known.get().listen(listener);
        listener.granted(known.get().reservation());
        return () -> callerOf(request, id);
      }
      pending =
          line.rejoin(request.requestId(), listener)
              .orElseGet(
                  () -> line.join(request, listener, wallClock.instant(), nanoClock.getAsLong()));
    }
    return () -> leave(pending, listener);
  }

  /**
   * Refuses what {@link #reserve} would refuse at once.
   *
   * @throws BerthException if it can never be granted, or nothing is granted at present
   */
  public void check(Optional<GpuWish> wish, int portCount) {
    wish.ifPresent(asked -> asked.checkAgainst(gpus.newest()));
    ports.check(portCount);
    synchronized (this) {
      refuseIfNotServing();
    }
  }

  /**
   * @throws BerthException if there is no such reservation
   */
  public synchronized void check(String id) {
    find(id);
  }

  /**
   * Prolongs a reservation: by {@code lease} from now, or by as long as before.
   *
   * @throws BerthException NOT_FOUND if there is no such reservation, UNAVAILABLE when this server
   *     stops
   */
  public Reservation renew(String id, Optional<Duration> lease) {
    lease.ifPresent(Lifetime::checkLease);
    synchronized (this) {
      refuseIfStopping();
      HeldReservation reservation = find(id);
      reservation.prolong(lease, this::expiryIn);
      expireAt(reservation);
      return reservation.reservation();
    }
  }

  /** Ends a reservation. What it held is free when this returns. */
  public void release(String id) {
    synchronized (this) {
      refuseIfStopping();
      List<String> runs = find(id).reservation().runIds();
      if (!runs.isEmpty()) {
        throw new BerthException(
            Reason.CONFLICT,
            id + " is used by " + String.join(", ", runs) + "; it is free when that has ended");
      }
      end(id, Ending.RELEASED);
    }
  }

  /**
   * Takes part in a reservation for a run; the same again for a run that does so already. After a
   * restart of this process, a run has the part that it had.
   *
   * @param onEnd run when the reservation ends before the run does, which should then end too. Must
   *     not block.
   */
  public synchronized RunHold hold(String id, String runId, Runnable onEnd) {
    refuseIfStopping();
    HeldReservation reservation = find(id);
    reservation.hold(runId);
    reservation.onEnd(runId, onEnd);
    return new RunHold(this, reservation.reservation(), runId);
  }

  /** The part that a run of an earlier process had, if its keeper still lives. */
  public synchronized Optional<RunHold> heldBy(String runId, Runnable onEnd) {
    return List.copyOf(held.values()).stream()
        .filter(reservation -> reservation.heldBy(runId))
        .findFirst()
        .map(reservation -> hold(reservation.reservation().id(), runId, onEnd));
  }

  synchronized void withHold(String id, Consumer<HeldReservation> action) {
    HeldReservation reservation = held.get(id);
    if (reservation != null && !closed) {
      action.accept(reservation);
    }
  }

  synchronized void unhold(String id, String runId) {
    HeldReservation reservation = held.get(id);
    if (reservation != null && reservation.unhold(runId)) {
      free(reservation, Ending.RUN_ENDED);
    }
  }

  /** Starts or ends draining; returns how many reservations are held. */
  public synchronized int setDraining(boolean wanted) {
    store.setDraining(wanted);
    draining = wanted;
    log.info(wanted ? "draining: nothing is granted any more" : "serving again");
    if (wanted) {
      line.refuseAll(drainingNow());
    }
    return held.size();
  }

  public Overview overview() {
    List<Reservation> reservations;
    List<Waiting> waiting;
    List<Integer> gathered;
    boolean drains;
    synchronized (this) {
      reservations = held.values().stream().map(HeldReservation::reservation).toList();
      waiting = line.overview();
      drains = draining;
      gathered = List.copyOf(protocol.gathered());
    }
    Set<Integer> ours = new HashSet<>(gathered);
    reservations.forEach(r -> r.gpus().forEach(gpu -> ours.add(gpu.index())));
    List<LockedByOther> others = new ArrayList<>();
    List<UnreservedUse> unreserved = new ArrayList<>();
    for (Gpu gpu : gpus.newest().gpus()) {
      if (ours.contains(gpu.index())) {
        continue;
      }
      Optional<LockFolder.Holder> holder = folder.holder(gpu.index());
      List<Integer> pids =
          gpu.processes().orElse(List.of()).stream().map(Gpu.Process::pid).toList();
      if (holder.isPresent()) {
        others.add(
            new LockedByOther(
                gpu.index(), gpu.uuid(), holder.get().pid(), holder.get().description()));
      } else if (!pids.isEmpty()) {
        unreserved.add(new UnreservedUse(gpu.index(), gpu.uuid(), pids));
      }
    }
    return new Overview(reservations, waiting, others, unreserved, gathered, drains);
  }

  /** Ends what cannot go on without this process, and leaves the rest to the keepers. */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      line.refuseAll(stopping());
      for (HeldReservation reservation : List.copyOf(held.values())) {
        if (reservation.keeper().isEmpty() && !reservation.held()) {
          end(reservation.reservation().id(), Ending.SERVER_STOPPED);
        }
      }
      line.close();
    }
    timer.shutdownNow();
    try {
      line.awaitEnd(STOP_GRACE);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    protocol.close();
    store.close();
  }

  private void grant(Pending pending, HeldGpus taken) {
    HeldReservation reservation;
    try {
      reservation = hold(pending.request(), Optional.of(taken));
      metrics.granted(nanoClock.getAsLong() - pending.sinceNanos());
    } catch (RuntimeException e) {
      taken.close();
      throw e;
    }
    synchronized (this) {
      String id = reservation.reservation().id();
      line.served(pending, id);
      if (pending.gone()) {
        free(reservation, Ending.CALLER_GONE);
        return;
      }
      reservation.listen(pending.listener());
      pending.listener().granted(reservation.reservation());
    }
  }

  private HeldReservation grantUnlessKnown(
      ReservationRequest request, ReservationListener listener) {
    synchronized (this) {
      refuseIfNotServing();
      HeldReservation granted = known(request.requestId()).orElseGet(() -> grantPorts(request));
      granted.listen(listener);
      listener.granted(granted.reservation());
      return granted;
    }
  }

  // Nobody waits for ports.
  private HeldReservation grantPorts(ReservationRequest request) {
    HeldReservation granted = hold(request, Optional.empty());
    metrics.granted(0);
    return granted;
  }

  private HeldReservation hold(ReservationRequest request, Optional<HeldGpus> taken) {
    HeldPorts takenPorts = ports.take(folder, request.ports());
    HeldReservation reservation;
    try {
      reservation =
          HeldReservation.grant(
              newId(), request, taken, takenPorts, store, wallClock.instant(), this::expiryIn);
    } catch (RuntimeException e) {
      takenPorts.close();
      throw e;
    }
    Reservation granted = reservation.reservation();
    taken.ifPresent(
        h -> h.describe("berthd " + serverName + ": " + granted.id() + " of " + granted.owner()));
    synchronized (this) {
      try {
        refuseIfNotServing();
      } catch (BerthException e) {
        reservation.free(protocol);
        throw e;
      }
      held.put(granted.id(), reservation);
      watch(reservation);
    }
    log.info("{} granted to {}: GPUs {}", granted.id(), granted.owner(), indices(granted));
    return reservation;
  }

  private void recover() {
    draining = store.draining();
    for (ReservationStore.Stored stored : store.load()) {
      HeldReservation reservation = HeldReservation.recover(stored, protocol, store);
      synchronized (this) {
        held.put(reservation.reservation().id(), reservation);
        watch(reservation);
        if (stored.own().isEmpty() && !stored.ofRun() && stored.reservation().expires().isEmpty()) {
          // What it lived by has gone with the earlier daemon.
          reservation.endWithRuns();
        }
      }
      log.info(
          "{} of {} goes on: GPUs {}",
          stored.reservation().id(),
          stored.reservation().owner(),
          indices(stored.reservation()));
    }
  }

  // Call with the lock.
  private void watch(HeldReservation reservation) {
    String id = reservation.reservation().id();
    expireAt(reservation);
    reservation.keeper().ifPresent(keeper -> keeper.ended().thenRun(() -> keeperEnded(id, keeper)));
  }

  private synchronized void keeperEnded(String id, Keeper keeper) {
    HeldReservation reservation = held.get(id);
    if (closed || reservation == null || !reservation.keeper().equals(Optional.of(keeper))) {
      return;
    }
    Reservation kept = reservation.reservation();
    boolean tooEarly =
        kept.expires().map(expiry -> expiry.nanos() - nanoClock.getAsLong() > 0).orElse(false)
            || kept.process().stream().anyMatch(pid -> ProcessHandle.of(pid).isPresent());
    boolean replaced;
    try {
      replaced = tooEarly && reservation.replaceKeeper(nanoClock.getAsLong());
    } catch (BerthException e) {
      // The locks are this process's too, and the next renewal tries again.
      log.warn("{} has no keeper: {}", id, e.getMessage());
      return;
    }
    if (replaced) {
      log.warn("the keeper of {} has ended too early; started another", id);
      watch(reservation);
    } else {
      end(
          id,
          tooEarly
              ? Ending.KEEPER_KILLED
              // One for a time ends as soon as its lease, and is heard of in either order.
              : kept.process().isPresent() ? Ending.PROCESS_ENDED : Ending.EXPIRED);
    }
  }

  private Expiry expiryIn(Duration lease) {
    return new Expiry(wallClock.instant().plus(lease), nanoClock.getAsLong() + lease.toNanos());
  }

  // Call with the lock.
  private void expireAt(HeldReservation reservation) {
    reservation
        .reservation()
        .expires()
        .ifPresent(
            expiry -> {
              long left = expiry.nanos() - nanoClock.getAsLong();
              ScheduledFuture<?> expiration =
                  timer.schedule(
                      () -> expire(reservation.reservation().id()), left, TimeUnit.NANOSECONDS);
              reservation.expiration(expiration);
            });
  }

  private synchronized void expire(String id) {
    HeldReservation reservation = held.get(id);
    if (!closed
        && reservation != null
        && reservation
            .reservation()
            .expires()
            .map(expiry -> nanoClock.getAsLong() - expiry.nanos() >= 0)
            .orElse(false)) {
      end(id, Ending.EXPIRED);
    }
  }

  // Call with the lock.
  private void end(String id, Ending why) {
    HeldReservation reservation = held.get(id);
    if (reservation == null) {
      return;
    }
    if (reservation.held()) {
      log.info("{} has ended: {}; runs still use it", id, why);
      count(reservation, why);
      reservation.endWithRuns();
    } else {
      free(reservation, why);
    }
  }

  // Call with the lock.
  private void free(HeldReservation reservation, Ending why) {
    String id = reservation.reservation().id();
    held.remove(id);
    // First, for those who look as soon as they are told of the end.
    count(reservation, why);
    reservation.free(protocol);
    log.info("{} has ended: {}", id, why);
  }

  // Each one once: what ended it is what came first, though runs may have kept it for longer.
  private void count(HeldReservation reservation, Ending why) {
    if (!reservation.ending()) {
      metrics.ended(why);
    }
  }

  private HeldReservation find(String id) {
    HeldReservation reservation = held.get(id);
    if (reservation == null) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no reservation '"
              + id
              + "' on "
              + serverName
              + ": it was released, has expired, or never was");
    }
    return reservation;
  }

  private void callerOf(ReservationRequest request, String id) {
    if (request.lifetime() instanceof Lifetime.OfStream) {
      synchronized (this) {
        end(id, Ending.CALLER_GONE);
      }
    }
  }

  private synchronized void leave(Pending pending, ReservationListener listener) {
    if (pending.listener() != listener) {
      // Somebody asked again for the same, and took the place.
      return;
    }
    if (pending.granted().isPresent()) {
      callerOf(pending.request(), pending.granted().get());
    } else {
      line.leave(pending);
    }
  }

  // Call with the lock.
  private void refuseIfStopping() {
    if (closed) {
      throw stopping();
    }
  }

  // Call with the lock.
  private void refuseIfNotServing() {
    refuseIfStopping();
    if (draining) {
      throw drainingNow();
    }
  }

  private Optional<HeldReservation> known(String requestId) {
    return requestId.isEmpty()
        ? Optional.empty()
        : held.values().stream().filter(r -> r.requestId().equals(requestId)).findFirst();
  }

  private BerthException drainingNow() {
    return new BerthException(
        Reason.UNAVAILABLE,
        serverName + " is draining: it grants nothing until 'berth server undrain'");
  }

  private static BerthException stopping() {
    return new BerthException(Reason.UNAVAILABLE, "this server is stopping");
  }

  private String newId() {
    return "r-" + HexFormat.of().toHexDigits(random.nextLong(), 10);
  }

  private static List<Integer> indices(Reservation reservation) {
    return reservation.gpus().stream().map(Reservation.HeldGpu::index).toList();
  }

  private static ThreadFactory daemonThreads(String name) {
    return task -> {
      Thread thread = new Thread(task, name);
      thread.setDaemon(true);
      return thread;
    };
  }
}
