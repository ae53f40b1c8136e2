package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation.Expiry;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.Future;
import java.util.function.Function;

/**
 * A reservation together with what holds it: the locks of this process, a keeper that holds them
 * too, or, if this process found it on its start and may not share the keeper's, the keeper alone.
 * Guarded by the lock of {@link Reservations}.
 */
final class HeldReservation {
  private final ReservationStore store;
  private final String requestId;
  private final Optional<HeldGpus> gpus;
  private final HeldPorts ports;
  private final boolean shared;
  private Reservation reservation;
  private Optional<Keeper> keeper;
  private Optional<Duration> lease;
  private Optional<ReservationListener> listener = Optional.empty();
  private Optional<Future<?>> expiration = Optional.empty();

  private HeldReservation(
      ReservationStore store,
      String requestId,
      Optional<HeldGpus> gpus,
      HeldPorts ports,
      boolean shared,
      Reservation reservation,
      Optional<Keeper> keeper,
      Optional<Duration> lease) {
    this.store = store;
    this.requestId = requestId;
    this.gpus = gpus;
    this.ports = ports;
    this.shared = shared;
    this.reservation = reservation;
    this.keeper = keeper;
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
    List<Integer> descriptors = descriptors(gpus, ports);
    Optional<Duration> lease = Optional.empty();
    Optional<Keeper.Gated> keeper = Optional.empty();
    OptionalInt process = OptionalInt.empty();
    if (request.lifetime() instanceof Lifetime.Renewals renewals) {
      lease = Optional.of(renewals.lease());
    } else if (request.lifetime() instanceof Lifetime.Lasting lasting) {
      lease = Optional.of(lasting.duration());
      keeper = Optional.of(Keeper.lasting(lasting.duration(), descriptors));
    } else if (request.lifetime() instanceof Lifetime.OfProcess of) {
      keeper = Optional.of(Keeper.untilEndOf(of.pid(), descriptors));
      process = OptionalInt.of(of.pid());
    }
    HeldReservation held =
        new HeldReservation(
            store,
            request.requestId(),
            gpus,
            ports,
            true,
            new Reservation(
                id,
                gpus.map(HeldGpus::gpus).orElse(List.of()),
                ports.ports(),
                request.owner(),
                request.purpose(),
                now,
                lease.map(expiryIn),
                process),
            keeper.map(Keeper.Gated::keeper),
            lease);
    keeper.ifPresent(held::saveAndGoOn);
    return held;
  }

  /** Goes on with a reservation that a keeper held meanwhile. */
  static HeldReservation recover(
      ReservationStore.Stored stored, LockProtocol protocol, ReservationStore store) {
    Reservation reservation = stored.reservation();
    List<Integer> theirs = new ArrayList<>(stored.gpuDescriptors());
    theirs.addAll(stored.portDescriptors());
    Optional<List<Integer>> ours = stored.keeper().share(theirs);
    Optional<HeldGpus> gpus = Optional.empty();
    HeldPorts ports = new HeldPorts(reservation.ports(), null);
    if (ours.isPresent()) {
      int gpuFiles = stored.gpuDescriptors().size();
      if (gpuFiles > 0) {
        gpus = Optional.of(adopt(reservation, protocol, ours.get().subList(0, gpuFiles)));
      }
      if (!stored.portDescriptors().isEmpty()) {
        ports =
            new HeldPorts(
                reservation.ports(),
                LockFile.adopt(protocol.folder().ports(), ours.get().get(gpuFiles)));
      }
    }
    return new HeldReservation(
        store,
        stored.requestId(),
        gpus,
        ports,
        ours.isPresent(),
        reservation,
        Optional.of(stored.keeper()),
        reservation
            .expires()
            .map(expiry -> Duration.between(reservation.granted(), expiry.wall())));
  }

  private static HeldGpus adopt(
      Reservation reservation, LockProtocol protocol, List<Integer> descriptors) {
    List<LockFile> files = new ArrayList<>();
    for (int i = 0; i < reservation.gpus().size(); i++) {
      files.add(
          LockFile.adopt(
              protocol.folder().gpu(reservation.gpus().get(i).index()), descriptors.get(i)));
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
    return keeper;
  }

  void listen(ReservationListener caller) {
    listener = Optional.of(caller);
  }

  /** Replaces the timer that ends it. */
  void expiration(Future<?> newer) {
    expiration.ifPresent(older -> older.cancel(false));
    expiration = Optional.of(newer);
  }

  void prolong(Optional<Duration> asked, Function<Duration, Expiry> expiryIn) {
    if (lease.isEmpty()) {
      throw new BerthException(
          Reason.CONFLICT,
          reservation.id()
              + (reservation.process().isPresent()
                  ? " lives as long as process " + reservation.process().getAsInt()
                  : " lives as long as its caller listens")
              + " and needs no renewal");
    }
    Duration next = asked.orElse(lease.get());
    Optional<Keeper> older = keeper;
    Optional<Keeper.Gated> newer = Optional.empty();
    if (older.isPresent()) {
      if (!shared) {
        throw new BerthException(
            Reason.CONFLICT,
            reservation.id()
                + " cannot be prolonged: the server has restarted since, and only as root can it"
                + " take over the locks");
      }
      newer = Optional.of(Keeper.lasting(next, descriptors(gpus, ports)));
      keeper = newer.map(Keeper.Gated::keeper);
    }
    lease = Optional.of(next);
    reservation = reservation.expiring(expiryIn.apply(next));
    newer.ifPresent(this::saveAndGoOn);
    older.ifPresent(Keeper::kill);
  }

  /**
   * Starts another keeper in place of one that ended too early. False if this process has no part
   * in the locks.
   */
  boolean replaceKeeper(long nowNanos) {
    if (!shared) {
      return false;
    }
    List<Integer> descriptors = descriptors(gpus, ports);
    Keeper.Gated another =
        reservation.process().isPresent()
            ? Keeper.untilEndOf(reservation.process().getAsInt(), descriptors)
            : Keeper.lasting(
                Duration.ofNanos(reservation.expires().orElseThrow().nanos() - nowNanos),
                descriptors);
    keeper = Optional.of(another.keeper());
    saveAndGoOn(another);
    return true;
  }

  /** Frees everything, and tells the caller if there is one. */
  void free(LockProtocol protocol) {
    expiration.ifPresent(timer -> timer.cancel(false));
    reservation.gpus().forEach(gpu -> protocol.freed(gpu.index()));
    gpus.ifPresent(HeldGpus::close);
    ports.close();
    if (keeper.isPresent()) {
      Keeper last = keeper.get();
      keeper = Optional.empty();
      last.kill();
      store.delete(reservation.id());
    }
    listener.ifPresent(ReservationListener::ended);
  }

  private void saveAndGoOn(Keeper.Gated gated) {
    try {
      store.save(
          new ReservationStore.Stored(
              reservation,
              requestId,
              gated.keeper(),
              gpus.map(HeldGpus::descriptors).orElse(List.of()),
              ports.descriptors()));
    } catch (BerthException e) {
      gated.kill();
      throw e;
    }
    gated.goOn();
  }

  private static List<Integer> descriptors(Optional<HeldGpus> gpus, HeldPorts ports) {
    List<Integer> descriptors = new ArrayList<>(gpus.map(HeldGpus::descriptors).orElse(List.of()));
    descriptors.addAll(ports.descriptors());
    return descriptors;
  }
}
