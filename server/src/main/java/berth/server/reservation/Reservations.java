package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.gpu.Gpu;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Reservation.Expiry;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Who holds which GPUs and ports of this machine, for how long, and who waits for them.
 *
 * <p>One thread serves the requests in the order in which they came; the order among the processes
 * of the machine is that of their tickets. Any thread may call; only {@link #close} waits for
 * anything.
 */
public final class Reservations implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Reservations.class);

  /** For a request that names no other. */
  public static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);

  // Those before a request that does not want to wait may just be on their way through.
  private static final Duration PASSING = Duration.ofMillis(250);

  private static final Duration STOP_GRACE = Duration.ofSeconds(2);

  /** Where the locks and the records are, and what is given out. */
  public record Settings(
      String serverName,
      Path lockFolder,
      Path stateFolder,
      String portRange,
      boolean ignoreStrangers) {}

  /** A request in the line. */
  public record Waiting(ReservationRequest request, Instant since) {}

  /** A GPU that somebody else has locked. */
  public record LockedByOther(int index, String uuid, OptionalInt pid, String description) {}

  /** A GPU that is used although nobody has locked it. */
  public record UnreservedUse(int index, String uuid, List<Integer> pids) {}

  /** Everything at one moment. */
  public record Overview(
      List<Reservation> reservations,
      List<Waiting> waiting,
      List<LockedByOther> lockedByOthers,
      List<UnreservedUse> unreservedUse,
      boolean draining) {}

  private static final class Pending {
    private final ReservationRequest request;
    private final Claim claim;
    private final Instant since;
    private ReservationListener listener;
    private int told;
    private String granted;
    private boolean gone;

    Pending(ReservationRequest request, Claim claim, ReservationListener listener, Instant since) {
      this.request = request;
      this.claim = claim;
      this.listener = listener;
      this.since = since;
    }
  }

  private final String serverName;
  private final GpuMonitor gpus;
  private final LockFolder folder;
  private final LockProtocol protocol;
  private final PortRange ports;
  private final ReservationStore store;
  private final LongSupplier nanoClock;
  private final Clock wallClock;
  private final SecureRandom random = new SecureRandom();
  private final ScheduledThreadPoolExecutor timer =
      new ScheduledThreadPoolExecutor(1, daemonThreads("reservation-timer"));
  private final Thread claimer = daemonThreads("reservation-claimer").newThread(this::serveAll);

  private final Map<String, HeldReservation> held = new LinkedHashMap<>();
  private final List<Pending> line = new ArrayList<>();
  private boolean draining;
  private boolean closed;

  private Reservations(
      Settings settings, GpuMonitor gpus, LongSupplier nanoClock, Clock wallClock) {
    this.serverName = settings.serverName;
    this.gpus = gpus;
    this.folder = new LockFolder(settings.lockFolder);
    this.ports = PortRange.parse(settings.portRange);
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    folder.prepare(gpus.newest().gpus().size());
    this.store = new ReservationStore(settings.stateFolder);
    this.protocol = new LockProtocol(folder, gpus, settings.ignoreStrangers);
    timer.setRemoveOnCancelPolicy(true);
  }

  /**
   * Takes up the reservations that went on since an earlier daemon, and starts to serve.
   *
   * @throws BerthException if the lock folder or the state folder cannot be used
   */
  public static Reservations open(Settings settings, GpuMonitor gpus) {
    Reservations reservations =
        new Reservations(settings, gpus, System::nanoTime, Clock.systemUTC());
    reservations.recover();
    reservations.claimer.start();
    return reservations;
  }

  /**
   * Asks for a reservation; the listener is told what becomes of it.
   *
   * @return to be run when the caller has gone: leaves the line, and ends a reservation that lives
   *     by the caller
   * @throws BerthException if it can never be granted, or nothing is granted at present
   */
  public Runnable reserve(ReservationRequest request, ReservationListener listener) {
    request.gpus().ifPresent(wish -> wish.checkAgainst(gpus.newest()));
    ports.check(request.ports());
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
      Optional<Pending> same = sameInLine(request.requestId());
      if (same.isPresent()) {
        pending = same.get();
        pending.listener.failed(
            new BerthException(Reason.CANCELLED, "the same request was made again"));
        pending.listener = listener;
        pending.told = 0;
      } else {
        pending =
            new Pending(
                request, new Claim(protocol, request.gpus().get()), listener, wallClock.instant());
        line.add(pending);
        notifyAll();
        limitWait(pending);
      }
      tellPositions();
    }
    return () -> leave(pending, listener);
  }

  /** Prolongs a reservation: by {@code lease} from now, or by as long as before. */
  public Reservation renew(String id, Optional<Duration> lease) {
    lease.ifPresent(Lifetime::checkLease);
    synchronized (this) {
      HeldReservation reservation = find(id);
      reservation.prolong(lease, this::expiryIn);
      expireAt(reservation);
      return reservation.reservation();
    }
  }

  /** Ends a reservation. What it held is free when this returns. */
  public void release(String id) {
    synchronized (this) {
      find(id);
      end(id, "released");
    }
  }

  /** Starts or ends draining; returns how many reservations are held. */
  public synchronized int setDraining(boolean wanted) {
    store.setDraining(wanted);
    draining = wanted;
    log.info(wanted ? "draining: nothing is granted any more" : "serving again");
    if (wanted) {
      refuseAll(drainingNow());
    }
    return held.size();
  }

  public Overview overview() {
    List<Reservation> reservations;
    List<Waiting> waiting;
    boolean drains;
    Set<Integer> ours = new HashSet<>();
    synchronized (this) {
      reservations = held.values().stream().map(HeldReservation::reservation).toList();
      waiting = line.stream().map(p -> new Waiting(p.request, p.since)).toList();
      drains = draining;
      ours.addAll(protocol.gathered());
    }
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
    return new Overview(reservations, waiting, others, unreserved, drains);
  }

  /** Ends what cannot go on without this process, and leaves the rest to the keepers. */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      refuseAll(stopping());
      for (HeldReservation reservation : List.copyOf(held.values())) {
        if (reservation.keeper().isEmpty()) {
          end(reservation.reservation().id(), "the server stops");
        }
      }
      notifyAll();
    }
    timer.shutdownNow();
    try {
      claimer.join(STOP_GRACE.toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    protocol.close();
    store.close();
  }

  private void serveAll() {
    try {
      while (true) {
        Pending next;
        synchronized (this) {
          while (line.isEmpty() && !closed) {
            wait();
          }
          if (line.isEmpty()) {
            return;
          }
          next = line.get(0);
        }
        serve(next);
      }
    } catch (InterruptedException e) {
      // The process ends.
    }
  }

  private void serve(Pending pending) throws InterruptedException {
    BerthException failure = null;
    try {
      HeldGpus taken = pending.claim.run(pending.request.waits(), () -> hasToWait(pending));
      grant(pending, taken);
    } catch (BerthException e) {
      failure = e;
    } catch (RuntimeException e) {
      log.error("reserving failed unexpectedly", e);
      failure = new BerthException(Reason.INTERNAL, "reserving failed unexpectedly", e);
    }
    synchronized (this) {
      line.remove(pending);
      if (failure != null && !pending.gone) {
        pending.listener.failed(failure);
      }
      tellPositions();
    }
  }

  private void grant(Pending pending, HeldGpus taken) {
    HeldReservation reservation;
    try {
      reservation = hold(pending.request, Optional.of(taken));
    } catch (RuntimeException e) {
      taken.close();
      throw e;
    }
    synchronized (this) {
      line.remove(pending);
      pending.granted = reservation.reservation().id();
      if (pending.gone) {
        end(pending.granted, "its caller has gone");
        return;
      }
      reservation.listen(pending.listener);
      pending.listener.granted(reservation.reservation());
    }
  }

  private HeldReservation grantUnlessKnown(
      ReservationRequest request, ReservationListener listener) {
    synchronized (this) {
      refuseIfNotServing();
      HeldReservation granted =
          known(request.requestId()).orElseGet(() -> hold(request, Optional.empty()));
      granted.listen(listener);
      listener.granted(granted.reservation());
      return granted;
    }
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
    boolean timeLeft =
        reservation
            .reservation()
            .expires()
            .map(expiry -> expiry.nanos() - nanoClock.getAsLong() > 0)
            .orElse(false);
    if (timeLeft && reservation.replaceKeeper(nanoClock.getAsLong())) {
      log.warn("the keeper of {} was killed; started another", id);
      watch(reservation);
    } else {
      end(id, timeLeft ? "somebody killed its keeper" : "its process has ended");
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
      end(id, "its lease is over");
    }
  }

  // Call with the lock.
  private void end(String id, String why) {
    HeldReservation reservation = held.remove(id);
    if (reservation != null) {
      reservation.free(protocol);
      log.info("{} has ended: {}", id, why);
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
        end(id, "its caller has gone");
      }
    }
  }

  private void leave(Pending pending, ReservationListener listener) {
    synchronized (this) {
      if (pending.listener != listener) {
        return;
      }
      if (pending.granted == null) {
        pending.gone = true;
        pending.claim.cancel(new BerthException(Reason.CANCELLED, "the caller has gone"));
        dropUnlessServed(pending);
      } else {
        callerOf(pending.request, pending.granted);
      }
    }
  }

  // Call with the lock. The first of the line is being served, and is removed by whoever serves it.
  private void dropUnlessServed(Pending pending) {
    if (line.indexOf(pending) > 0) {
      line.remove(pending);
      pending.claim.close();
      tellPositions();
    }
  }

  private void limitWait(Pending pending) {
    ReservationRequest request = pending.request;
    if (request.waitAtMost().isEmpty()) {
      return;
    }
    Duration limit = request.waits() ? request.waitAtMost().get() : PASSING;
    timer.schedule(() -> waitedEnough(pending), limit.toNanos(), TimeUnit.NANOSECONDS);
  }

  private synchronized void waitedEnough(Pending pending) {
    if (pending.granted != null || !line.contains(pending)) {
      return;
    }
    ReservationRequest request = pending.request;
    if (!request.waits() && line.get(0) == pending && !pending.claim.hasToQueue()) {
      // It is only slow, as on a busy machine, and needs no more than time.
      limitWait(pending);
      return;
    }
    GpuWish wish = request.gpus().get();
    String asked = wish.phrase(wish.needed(gpus.newest().gpus().size())) + " asked, ";
    int ahead = line.indexOf(pending);
    fail(
        pending,
        request.waits()
            ? new BerthException(
                Reason.TIMED_OUT,
                asked
                    + "not granted within "
                    + request.waitAtMost().get().toMillis() / 1000.0
                    + " s"
                    + (ahead > 0 ? "; " + ahead + " requests are still before it" : ""))
            : new BerthException(Reason.EXHAUSTED, asked + "but others are waiting already"));
  }

  // Call with the lock.
  private void refuseAll(BerthException why) {
    for (Pending pending : List.copyOf(line)) {
      fail(pending, why);
    }
  }

  // Call with the lock. One who is being served is told by whoever serves it.
  private void fail(Pending pending, BerthException why) {
    pending.claim.cancel(why);
    if (line.indexOf(pending) > 0) {
      dropUnlessServed(pending);
      pending.listener.failed(why);
    }
  }

  private void hasToWait(Pending pending) {
    synchronized (this) {
      if (!pending.gone) {
        pending.listener.queued(0);
      }
    }
  }

  // Call with the lock. Requests of other processes that came between ours are not counted again
  // for each of them.
  private void tellPositions() {
    if (line.isEmpty()) {
      return;
    }
    int ahead = line.get(0).claim.ahead();
    for (Pending pending : line) {
      if (ahead > 0 && ahead != pending.told && !pending.gone) {
        pending.told = ahead;
        pending.listener.queued(ahead);
      }
      ahead++;
    }
  }

  // Call with the lock.
  private void refuseIfNotServing() {
    if (closed) {
      throw stopping();
    }
    if (draining) {
      throw drainingNow();
    }
  }

  private Optional<HeldReservation> known(String requestId) {
    return requestId.isEmpty()
        ? Optional.empty()
        : held.values().stream().filter(r -> r.requestId().equals(requestId)).findFirst();
  }

  private Optional<Pending> sameInLine(String requestId) {
    return requestId.isEmpty()
        ? Optional.empty()
        : line.stream()
            .filter(p -> !p.gone && p.granted == null && p.request.requestId().equals(requestId))
            .findFirst();
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
    return "r-" + String.format("%010x", random.nextLong() & 0xff_ffff_ffffL);
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
