package berth.server.reservation;

import berth.host.lock.GpuWish;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.ListReservationsResponse;
import berth.v1.LockHolder;
import berth.v1.ReserveRequest;
import berth.v1.ReservedGpu;
import berth.v1.WaitTime;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Reads and writes the messages of {@code berth/v1/reservation.proto}. */
public final class ReservationMessages {
  // Of what people read in one line. Records have limits of their own below that.
  private static final int LONGEST_TEXT = 200;

  private final String serverName;

  public ReservationMessages(String serverName) {
    this.serverName = serverName;
  }

  ReservationRequest request(ReserveRequest request) {
    return new ReservationRequest(
        request.hasGpus() ? Optional.of(wish(request.getGpus())) : Optional.empty(),
        request.getPortCount(),
        waitAtMost(request.getWait()),
        lifetime(request.getLifetime()),
        owner(request.getOwner()),
        PlainText.check("the purpose", request.getPurpose(), LONGEST_TEXT),
        PlainText.check("the request id", request.getRequestId(), LONGEST_TEXT));
  }

  /**
   * Who asks.
   *
   * @throws BerthException INVALID if that is not plain text
   */
  public static Reservation.Owner owner(berth.v1.Owner owner) {
    return new Reservation.Owner(
        PlainText.check("the owner's user name", owner.getUser(), LONGEST_TEXT),
        PlainText.check("the owner's host name", owner.getHost(), LONGEST_TEXT));
  }

  public static GpuWish wish(GpuRequest request) {
    boolean given = request.getChoiceCase() == GpuRequest.ChoiceCase.EXACTLY;
    if (given && request.getExactly().getIdsCount() == 0) {
      throw invalid("exact GPUs requested, but none given");
    }
    request.getExactly().getIdsList().forEach(id -> PlainText.check("a GPU", id, LONGEST_TEXT));
    return new GpuWish(
        request.getCount(),
        given ? request.getExactly().getIdsList() : List.of(),
        request.getMinFreeMemoryBytes(),
        PlainText.check("the GPU model", request.getModel(), LONGEST_TEXT));
  }

  public static Optional<Duration> waitAtMost(WaitTime wait) {
    return switch (wait.getLimitCase()) {
      case AT_MOST -> Optional.of(Messages.duration(wait.getAtMost()));
      case FOREVER -> wait.getForever() ? Optional.empty() : Optional.of(Duration.ZERO);
      case LIMIT_NOT_SET -> Optional.of(Duration.ZERO);
    };
  }

  private static Lifetime lifetime(berth.v1.Lifetime lifetime) {
    return switch (lifetime.getByCase()) {
      case RENEWALS -> new Lifetime.Renewals(Messages.duration(lifetime.getRenewals()));
      case DURATION ->
          new Lifetime.Lasting(Messages.duration(lifetime.getDuration()), lifetime.getRenewed());
      case PROCESS -> new Lifetime.OfProcess(lifetime.getProcess());
      case STREAM -> {
        if (!lifetime.getStream()) {
          throw invalid("lifetime.stream is false; leave it out, or choose another lifetime");
        }
        yield new Lifetime.OfStream();
      }
      case BY_NOT_SET -> new Lifetime.Renewals(Reservations.DEFAULT_LEASE);
    };
  }

  Optional<Duration> duration(boolean given, com.google.protobuf.Duration duration) {
    return given ? Optional.of(Messages.duration(duration)) : Optional.empty();
  }

  public berth.v1.Reservation reservation(Reservation reservation) {
    berth.v1.Reservation.Builder message =
        berth.v1.Reservation.newBuilder()
            .setReservationId(reservation.id())
            .addAllPorts(reservation.ports())
            .setOwner(owner(reservation.owner()))
            .setPurpose(reservation.purpose())
            .setGrantedAt(Messages.timestamp(reservation.granted()));
    reservation
        .gpus()
        .forEach(
            gpu ->
                message.addGpus(
                    ReservedGpu.newBuilder().setIndex(gpu.index()).setUuid(gpu.uuid())));
    reservation
        .expires()
        .ifPresent(
            expiry ->
                message
                    .setExpiresAt(Messages.timestamp(expiry.wall()))
                    .setRemaining(
                        Messages.duration(
                            Duration.ofNanos(Math.max(0, expiry.nanos() - System.nanoTime())))));
    reservation.process().ifPresent(message::setProcess);
    return message
        .addAllRunIds(reservation.runIds())
        .setHeldBack(reservation.heldBack())
        .setRenewed(reservation.renewed())
        .build();
  }

  public ListReservationsResponse overview(Overview overview) {
    ListReservationsResponse.Builder message =
        ListReservationsResponse.newBuilder()
            .setServer(serverName)
            .setDraining(overview.draining());
    overview.reservations().forEach(held -> message.addReservations(reservation(held)));
    overview.waiting().forEach(waiting -> message.addWaiting(waiting(waiting)));
    overview.lockedByOthers().forEach(other -> message.addLockedByOthers(holder(other)));
    overview
        .unreservedUse()
        .forEach(
            use ->
                message.addUnreservedUse(
                    berth.v1.UnreservedUse.newBuilder()
                        .setIndex(use.index())
                        .setUuid(use.uuid())
                        .addAllPids(use.pids())));
    return message.build();
  }

  private static berth.v1.Waiting waiting(Overview.Waiting waiting) {
    ReservationRequest request = waiting.request();
    return berth.v1.Waiting.newBuilder()
        .setOwner(owner(request.owner()))
        .setPurpose(request.purpose())
        .setGpuCount(
            request
                .gpus()
                .map(wish -> wish.ids().isEmpty() ? wish.count() : wish.ids().size())
                .orElse(0))
        .setPortCount(request.ports())
        .setSince(Messages.timestamp(waiting.since()))
        .setWaitingBecause(waiting.because())
        .build();
  }

  private static LockHolder holder(Overview.LockedByOther other) {
    return LockHolder.newBuilder()
        .setIndex(other.index())
        .setUuid(other.uuid())
        .setPid(other.pid().orElse(0))
        .setDescription(other.description())
        .build();
  }

  private static berth.v1.Owner owner(Reservation.Owner owner) {
    return berth.v1.Owner.newBuilder().setUser(owner.user()).setHost(owner.host()).build();
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
