package berth.server.reservation;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuSample;
import berth.host.lock.GpuWish;
import berth.host.lock.HeldGpus;
import berth.host.lock.HeldPorts;
import berth.host.lock.Keeper;
import berth.host.lock.KnownProcess;
import berth.host.lock.LockFolder;
import berth.host.lock.LockProtocol;
import berth.host.lock.LockedGpu;
import berth.host.lock.PortRange;
import berth.host.lock.ProcessWatch;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.server.reservation.Overview.LockedByOther;
import berth.server.reservation.Overview.UnreservedUse;
import berth.server.reservation.Overview.Waiting;
import berth.server.reservation.Reservation.Expiry;
import berth.server.reservation.Reservation.Owner;
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
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Who holds which GPUs and ports of this machine, for how long, and who waits for them.
 *
 * <p>Any thread may call. What one reservation waits for, its disk or its keepers, delays no other
 * one: the lock of this object is never held meanwhile, and never taken before that of a {@link
 * HeldReservation}.
 */
public final class Reservations implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Reservations.class);

  /** For a request that names no other. */
  public static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);

  private static final Duration STOP_GRACE = Duration.ofSeconds(2);

  /**
   * Where the locks and the records are, and what is given out.
   *
   * @param mostWaiting how many requests may wait, runs aside
   * @param mostWaitingPerOwner how many of them may be of one owner
   */
  public record Settings(
      String serverName,
      Path lockFolder,
      Path stateFolder,
      String portRange,
      boolean ignoreStrangers,
      int mostWaiting,
      int mostWaitingPerOwner) {
    /** With the usual limits. */
    public Settings(
        String serverName,
        Path lockFolder,
        Path stateFolder,
        String portRange,
        boolean ignoreStrangers) {
      this(serverName, lockFolder, stateFolder, portRange, ignoreStrangers, 1000, 100);
    }
  }

  private final Settings settings;
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
      new ScheduledThreadPoolExecutor(1, DaemonThreads.named("reservation-timer"));
  // Who asks for ports alone gets them in the call itself. A retry waits for the first call, and
  // nobody else does.
  private final Set<String> portGrants = new HashSet<>();

  private final Map<String, HeldReservation> held = new LinkedHashMap<>();
  private volatile boolean knownGpus;
  private boolean draining;
  private boolean closed;

  private Reservations(
      Settings settings,
      GpuMonitor gpus,
      DurableFiles durable,
      Vitals vitals,
      Metrics metrics,
      LongSupplier nanoClock,
      Clock wallClock) {
    this.settings = settings;
    this.serverName = settings.serverName;
    this.gpus = gpus;
    this.folder = new LockFolder(settings.lockFolder);
    this.ports = PortRange.parse(settings.portRange);
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    this.knownGpus = GpuWish.readable(gpus.newest()) && !gpus.newest().gpus().isEmpty();
    folder.prepare(gpus.newest().gpus().size());
    this.store = new ReservationStore(settings.stateFolder, durable);
    this.protocol = new LockProtocol(folder, gpus, settings.ignoreStrangers, vitals);
    this.line = new WaitingLine(this, protocol, timer, this::grant);
    timer.setRemoveOnCancelPolicy(true);
    // There may be no thread to be had when it is needed.
    timer.prestartAllCoreThreads();
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
   * @param durable not closed before this is
   * @throws BerthException if the lock folder or the state folder cannot be used
   */
  public static Reservations open(
      Settings settings, GpuMonitor gpus, DurableFiles durable, Vitals vitals, Metrics metrics) {
    Reservations reservations =
        new Reservations(
            settings, gpus, durable, vitals, metrics, System::nanoTime, Clock.systemUTC());
    reservations.recover();
    reservations.line.start(vitals);
    return reservations;
  }

  /**
   * Asks for a reservation; the listener is told what becomes of it. One for a run may have been
   * accepted by an earlier process, so it waits also while nothing is known of the GPUs, or fewer
   * of them are there than were then: {@link #check} refuses new runs.
   *
   * @return to be run when client disconnected: leaves the line, and ends a reservation that lives
   *     by the caller
   * @throws BerthException if it can never be granted, or nothing is granted at present
   */
  public Runnable reserve(ReservationRequest request, ReservationListener caller) {
    boolean ofRun = request.lifetime() instanceof Lifetime.OfRun;
    // A run was checked when it was accepted, if only by an earlier process.
    boolean possible = ofRun || checkPossible(request.gpus());
    ports.check(request.ports());
    if (!ofRun) {
      checkGpusAreKnown(request.gpus(), request.waits());
    }
    ReservationListener listener = new ProtectedListener(caller);
    if (request.gpus().isEmpty()) {
      String id = grantPortsUnlessKnown(request, listener);
      return () -> callerOf(request, id, listener);
    }
    Pending pending;
    synchronized (this) {
      refuseIfNotServing();
      Optional<HeldReservation> known = known(request.requestId());
      if (known.isPresent()) {
        String id = known.get().reservation().id();
        known.get().listen(listener);
        listener.granted(known.get().reservation());
        return () -> callerOf(request, id, listener);
      }
      Optional<Pending> same = line.rejoin(request.requestId(), listener);
      if (same.isEmpty() && !ofRun) {
        refuseIfTooManyWait(request.owner());
      }
      pending =
          same.orElseGet(
              () ->
                  line.join(
                      request, possible, listener, wallClock.instant(), nanoClock.getAsLong()));
    }
    return () -> leave(pending, listener);
  }

  /**
   * Refuses what {@link #reserve} would refuse at once.
   *
   * @param waitAtMost how long it would wait, as in {@link ReservationRequest}
   * @throws BerthException if it can never be granted, or nothing is granted at present
   */
  public void check(Optional<GpuWish> wish, int portCount, Optional<Duration> waitAtMost) {
    checkPossible(wish);
    ports.check(portCount);
    checkGpusAreKnown(wish, !waitAtMost.equals(Optional.of(Duration.ZERO)));
    synchronized (this) {
      refuseIfNotServing();
    }
  }

  private boolean checkPossible(Optional<GpuWish> wish) {
    return wish.map(asked -> asked.checkAgainst(gpus.newest())).orElse(true);
  }

  // Who waits may do so for GPUs that were there once. Who comes while nobody knows whether there
  // are any had better ask elsewhere.
  private void checkGpusAreKnown(Optional<GpuWish> wish, boolean waits) {
    GpuSample sample = gpus.newest();
    knownGpus |= GpuWish.readable(sample) && !sample.gpus().isEmpty();
    if (wish.isPresent() && !GpuWish.readable(sample) && !(waits && knownGpus)) {
      throw wish.get().refusal(sample);
    }
  }

  // Call with the lock.
  private void refuseIfTooManyWait(Owner owner) {
    int all = line.waiting(Optional.empty());
    if (all >= settings.mostWaiting) {
      throw new BerthException(
          Reason.EXHAUSTED,
          all + " requests are waiting on " + serverName + ", the maximum; try again later");
    }
    int own = line.waiting(Optional.of(owner));
    if (own >= settings.mostWaitingPerOwner) {
      throw new BerthException(
          Reason.EXHAUSTED,
          own
              + " requests of "
              + owner
              + " are waiting on "
              + serverName
              + ", the maximum per owner");
    }
  }

  /**
   * @throws BerthException if there is no such reservation
   */
  public void check(String id) {
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
    HeldReservation reservation = findUnlessStopping(id);
    if (!reservation.prolong(lease, this::expiryIn)) {
      throw notFound(id);
    }
    expireAt(reservation);
    return reservation.reservation();
  }

  /** Ends a reservation. What it held is free when this returns. */
  public void release(String id) {
    HeldReservation reservation = findUnlessStopping(id);
    List<String> runs = reservation.reservation().runIds();
    if (!runs.isEmpty()) {
      throw new BerthException(
          Reason.CONFLICT,
          id + " is used by " + String.join(", ", runs) + "; it is free when that has ended");
    }
    end(reservation, EndReason.RELEASED);
  }

  /**
   * Takes part in a reservation for a run; the same again for a run that does so already. After a
   * restart of this process, a run has the part that it had.
   *
   * @param onEnd run when the reservation ends before the run does, which should then end too. Must
   *     not block.
   */
  public RunHold hold(String id, String runId, Runnable onEnd) {
    HeldReservation reservation = findUnlessStopping(id);
    if (!reservation.hold(runId)) {
      throw notFound(id);
    }
    reservation.onEnd(runId, onEnd);
    return new RunHold(this, reservation.reservation(), runId);
  }

  /** The part that a run of an earlier process had, if its keeper still lives. */
  public Optional<RunHold> heldBy(String runId, Runnable onEnd) {
    return all().stream()
        .map(HeldReservation::reservation)
        .filter(reservation -> reservation.runIds().contains(runId))
        .findFirst()
        .map(reservation -> hold(reservation.id(), runId, onEnd));
  }

  void withHold(String id, Consumer<HeldReservation> action) {
    Optional<HeldReservation> reservation;
    synchronized (this) {
      reservation = closed ? Optional.empty() : Optional.ofNullable(held.get(id));
    }
    reservation.ifPresent(action);
  }

  void unhold(String id, String runId) {
    HeldReservation reservation;
    synchronized (this) {
      reservation = held.get(id);
    }
    if (reservation != null) {
      reservation.unhold(runId, () -> ended(reservation, EndReason.RUN_ENDED));
    }
  }

  /** Starts or ends draining; returns how many reservations are held. */
  public int setDraining(boolean wanted) {
    synchronized (store) {
      store.setDraining(wanted);
      synchronized (this) {
        draining = wanted;
        log.info(wanted ? "draining: no further grants" : "serving again");
        if (wanted) {
          line.refuseAll(drainingNow());
        }
        return held.size();
      }
    }
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
      line.close();
    }
    for (HeldReservation reservation : all()) {
      if (reservation.keeper().isEmpty() && reservation.reservation().runIds().isEmpty()) {
        end(reservation, EndReason.SERVER_STOPPED);
      }
      reservation.stopWatching();
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

  private synchronized List<HeldReservation> all() {
    return List.copyOf(held.values());
  }

  private void grant(Pending pending, HeldGpus taken) {
    HeldReservation reservation = hold(pending.request(), Optional.of(taken));
    BerthException refusal = null;
    synchronized (this) {
      try {
        refuseIfNotServing();
        line.served(pending, reservation.reservation().id());
        if (!pending.gone()) {
          // Known and listened to in the same moment: a retry finds either the one in the line or
          // this.
          held.put(reservation.reservation().id(), reservation);
          reservation.listen(pending.listener());
          granted(reservation, nanoClock.getAsLong() - pending.sinceNanos());
          pending.listener().granted(reservation.reservation());
        }
      } catch (BerthException e) {
        refusal = e;
      }
    }
    if (refusal != null || pending.gone()) {
      reservation.withdraw();
    }
    if (refusal != null) {
      throw refusal;
    }
    watch(reservation);
  }

  private String grantPortsUnlessKnown(ReservationRequest request, ReservationListener listener) {
    Optional<HeldReservation> known = awaitPortGrant(request.requestId());
    HeldReservation reservation;
    try {
      // Nobody waits for ports.
      reservation = known.isPresent() ? known.get() : grantPorts(request, listener);
    } finally {
      if (known.isEmpty()) {
        synchronized (this) {
          portGrants.remove(request.requestId());
          notifyAll();
        }
      }
    }
    reservation.listen(listener);
    listener.granted(reservation.reservation());
    return reservation.reservation().id();
  }

  // What an earlier call for the same has got. Empty if there was none: this one is noted then.
  private synchronized Optional<HeldReservation> awaitPortGrant(String requestId) {
    while (true) {
      refuseIfNotServing();
      Optional<HeldReservation> known = known(requestId);
      if (known.isPresent() || requestId.isEmpty() || portGrants.add(requestId)) {
        return known;
      }
      try {
        wait();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new BerthException(Reason.CANCELLED, "interrupted while the same request is served");
      }
    }
  }

  private HeldReservation grantPorts(ReservationRequest request, ReservationListener listener) {
    HeldReservation reservation = hold(request, Optional.empty());
    BerthException refusal = null;
    synchronized (this) {
      try {
        refuseIfNotServing();
        held.put(reservation.reservation().id(), reservation);
        reservation.listen(listener);
        granted(reservation, 0);
      } catch (BerthException e) {
        refusal = e;
      }
    }
    if (refusal != null) {
      reservation.withdraw();
      throw refusal;
    }
    watch(reservation);
    return reservation;
  }

  private void granted(HeldReservation reservation, long waitedNanos) {
    metrics.granted(waitedNanos);
    Reservation granted = reservation.reservation();
    log.info("{} granted to {}: GPUs {}", granted.id(), granted.owner(), indices(granted));
  }

  // On disk, with its keeper, but known to nobody yet.
  private HeldReservation hold(ReservationRequest request, Optional<HeldGpus> taken) {
    Optional<HeldPorts> takenPorts = Optional.empty();
    try {
      takenPorts = Optional.of(ports.take(folder, request.ports()));
      HeldReservation reservation =
          HeldReservation.grant(
              newId(),
              request,
              taken,
              takenPorts.get(),
              protocol,
              store,
              wallClock.instant(),
              this::expiryIn);
      Reservation granted = reservation.reservation();
      taken.ifPresent(
          h -> h.describe("berthd " + serverName + ": " + granted.id() + " of " + granted.owner()));
      return reservation;
    } catch (RuntimeException | Error e) {
      takenPorts.ifPresent(HeldPorts::close);
      taken.ifPresent(HeldGpus::close);
      throw e;
    }
  }

  private void recover() {
    draining = store.draining();
    for (ReservationStore.Stored stored : store.load()) {
      HeldReservation.recover(stored, protocol, ports, store, this::byThisClock)
          .ifPresent(reservation -> goOn(stored, reservation));
    }
  }

  private void goOn(ReservationStore.Stored stored, HeldReservation reservation) {
    synchronized (this) {
      held.put(reservation.reservation().id(), reservation);
    }
    watch(reservation);
    if (stored.own().isEmpty() && !stored.ofRun() && stored.reservation().expires().isEmpty()) {
      // What it lived by has gone with the earlier daemon.
      reservation.finish(() -> {});
    }
    log.info(
        "{} of {} continues: GPUs {}",
        stored.reservation().id(),
        stored.reservation().owner(),
        indices(stored.reservation()));
  }

  // Each by itself: without a thread to wait for one, the others end it in time all the same.
  private void watch(HeldReservation reservation) {
    protocol.retries().now(() -> expireAt(reservation));
    reservation.keeper().ifPresent(keeper -> watch(reservation, keeper));
    // The keeper sees only that there is a process of this id.
    reservation
        .process()
        .ifPresent(
            process ->
                protocol
                    .retries()
                    .now(
                        () ->
                            reservation.watchedBy(
                                ProcessWatch.start(
                                    process,
                                    () -> endSurely(reservation, EndReason.PROCESS_ENDED)))));
  }

  private void watch(HeldReservation reservation, Keeper keeper) {
    protocol
        .retries()
        .now(
            () ->
                keeper
                    .ended()
                    .thenRun(() -> protocol.retries().now(() -> keeperEnded(reservation, keeper))));
  }

  private void keeperEnded(HeldReservation reservation, Keeper keeper) {
    if (isClosed() || !reservation.keeper().equals(Optional.of(keeper))) {
      return;
    }
    Reservation kept = reservation.reservation();
    boolean tooEarly =
        kept.expires().map(expiry -> expiry.nanos() - nanoClock.getAsLong() > 0).orElse(false)
            || reservation.process().map(KnownProcess::alive).orElse(false);
    // If that fails, the locks are this process's too, and it is tried again.
    if (tooEarly && reservation.replaceKeeper()) {
      log.warn("the keeper of {} ended too early; started another", kept.id());
      reservation.keeper().ifPresent(next -> watch(reservation, next));
    } else {
      endUnlessClosed(
          reservation,
          tooEarly
              ? EndReason.KEEPER_KILLED
              // One for a time ends as soon as its lease, and is heard of in either order.
              : kept.process().isPresent() ? EndReason.PROCESS_ENDED : EndReason.EXPIRED);
    }
  }

  private Expiry expiryIn(Duration lease) {
    return new Expiry(wallClock.instant().plus(lease), nanoClock.getAsLong() + lease.toNanos());
  }

  // Somebody may have set the wall clock since.
  private Expiry byThisClock(Expiry expiry) {
    return new Expiry(
        wallClock.instant().plusNanos(expiry.nanos() - nanoClock.getAsLong()), expiry.nanos());
  }

  private void expireAt(HeldReservation reservation) {
    try {
      // In a thread of its own: what one needs for its end must not delay the others.
      reservation.expireBy(
          expiry ->
              timer.schedule(
                  () -> protocol.retries().later(() -> expire(reservation)),
                  expiry.nanos() - nanoClock.getAsLong(),
                  TimeUnit.NANOSECONDS));
    } catch (RejectedExecutionException e) {
      // This server stops.
    }
  }

  private void expire(HeldReservation reservation) {
    if (reservation
        .reservation()
        .expires()
        .map(expiry -> nanoClock.getAsLong() - expiry.nanos() >= 0)
        .orElse(false)) {
      endUnlessClosed(reservation, EndReason.EXPIRED);
    }
  }

  private synchronized boolean isClosed() {
    return closed;
  }

  private void endUnlessClosed(HeldReservation reservation, EndReason why) {
    if (!isClosed()) {
      end(reservation, why);
    }
  }

  // For those to whom nobody listens if it fails.
  private void endSurely(HeldReservation reservation, EndReason why) {
    protocol.retries().now(() -> endUnlessClosed(reservation, why));
  }

  private void end(HeldReservation reservation, EndReason why) {
    reservation.finish(
        () -> {
          // First, for those who look as soon as they are told of the end.
          if (reservation.reservation().runIds().isEmpty()) {
            ended(reservation, why);
          } else {
            log.info("{} has ended: {}; runs still use it", reservation.reservation().id(), why);
            metrics.ended(why);
          }
        });
  }

  private void ended(HeldReservation reservation, EndReason why) {
    String id = reservation.reservation().id();
    synchronized (this) {
      held.remove(id);
    }
    // Each one once: what ended it is what came first, though runs may have kept it for longer.
    if (!reservation.ending()) {
      metrics.ended(why);
    }
    log.info("{} has ended: {}", id, why);
  }

  private synchronized HeldReservation find(String id) {
    HeldReservation reservation = held.get(id);
    if (reservation == null) {
      throw notFound(id);
    }
    return reservation;
  }

  private synchronized HeldReservation findUnlessStopping(String id) {
    refuseIfStopping();
    return find(id);
  }

  private BerthException notFound(String id) {
    return new BerthException(
        Reason.NOT_FOUND,
        "there is no reservation '"
            + id
            + "' on "
            + serverName
            + ": it was released, has expired, or never existed");
  }

  private void callerOf(ReservationRequest request, String id, ReservationListener caller) {
    HeldReservation reservation;
    synchronized (this) {
      reservation = held.get(id);
    }
    // Somebody may have asked again for the same, and listens now.
    if (reservation != null
        && request.lifetime() instanceof Lifetime.OfStream
        && reservation.isCaller(caller)) {
      endSurely(reservation, EndReason.CALLER_GONE);
    }
  }

  private void leave(Pending pending, ReservationListener listener) {
    String id;
    synchronized (this) {
      if (pending.listener() != listener) {
        // Somebody asked again for the same, and took the place.
        return;
      }
      if (pending.granted().isEmpty()) {
        line.leave(pending);
        return;
      }
      id = pending.granted().get();
    }
    callerOf(pending.request(), id, listener);
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
    return reservation.gpus().stream().map(LockedGpu::index).toList();
  }
}
