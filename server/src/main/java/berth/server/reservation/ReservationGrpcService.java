package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Replies;
import berth.rpc.StreamPump;
import berth.v1.ListReservationsRequest;
import berth.v1.ListReservationsResponse;
import berth.v1.Queued;
import berth.v1.ReleaseRequest;
import berth.v1.ReleaseResponse;
import berth.v1.RenewRequest;
import berth.v1.RenewResponse;
import berth.v1.ReservationServiceGrpc;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.SetDrainingRequest;
import berth.v1.SetDrainingResponse;
import io.grpc.stub.StreamObserver;

/** Speaks gRPC for {@link Reservations}; decides nothing itself. */
public final class ReservationGrpcService
    extends ReservationServiceGrpc.ReservationServiceImplBase {
  private static final int WAITING_RESPONSES = 16;

  private final Reservations reservations;
  private final ReservationMessages messages;

  public ReservationGrpcService(String serverName, Reservations reservations) {
    this.reservations = reservations;
    this.messages = new ReservationMessages(serverName);
  }

  @Override
  public void reserve(ReserveRequest request, StreamObserver<ReserveResponse> observer) {
    StreamPump<ReserveResponse> pump =
        new StreamPump<>(observer, WAITING_RESPONSES, new NewestPosition());
    try {
      ReservationRequest asked = messages.request(request);
      boolean staysOpen = asked.lifetime() instanceof Lifetime.OfStream;
      pump.onEnd(reservations.reserve(asked, new Caller(pump, staysOpen)));
    } catch (RuntimeException e) {
      pump.fail(e);
    }
  }

  @Override
  public void renew(RenewRequest request, StreamObserver<RenewResponse> observer) {
    Replies.unary(
        observer,
        () ->
            RenewResponse.newBuilder()
                .setReservation(
                    messages.reservation(
                        reservations.renew(
                            request.getReservationId(),
                            messages.duration(request.hasLease(), request.getLease()))))
                .build());
  }

  @Override
  public void release(ReleaseRequest request, StreamObserver<ReleaseResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          reservations.release(request.getReservationId());
          return ReleaseResponse.getDefaultInstance();
        });
  }

  @Override
  public void listReservations(
      ListReservationsRequest request, StreamObserver<ListReservationsResponse> observer) {
    Replies.unary(observer, () -> messages.overview(reservations.overview()));
  }

  @Override
  public void setDraining(
      SetDrainingRequest request, StreamObserver<SetDrainingResponse> observer) {
    Replies.unary(
        observer,
        () ->
            SetDrainingResponse.newBuilder()
                .setReservations(reservations.setDraining(request.getDraining()))
                .build());
  }

  private final class Caller implements ReservationListener {
    private final StreamPump<ReserveResponse> pump;
    private final boolean staysOpen;

    Caller(StreamPump<ReserveResponse> pump, boolean staysOpen) {
      this.pump = pump;
      this.staysOpen = staysOpen;
    }

    @Override
    public void queued(int ahead, String because) {
      pump.send(
          ReserveResponse.newBuilder()
              .setQueued(Queued.newBuilder().setAhead(ahead).setWaitingBecause(because))
              .build());
    }

    @Override
    public void granted(Reservation reservation) {
      pump.send(ReserveResponse.newBuilder().setGranted(messages.reservation(reservation)).build());
      if (!staysOpen) {
        pump.complete();
      }
    }

    @Override
    public void failed(BerthException why) {
      pump.fail(why);
    }

    @Override
    public void ended() {
      pump.complete();
    }
  }

  /** Only the newest place in the line is of interest to a slow reader. */
  private static final class NewestPosition implements StreamPump.Overflow<ReserveResponse> {
    @Override
    public boolean mayDrop(ReserveResponse response) {
      return response.hasQueued();
    }

    @Override
    public ReserveResponse afterSkipping(ReserveResponse response, int skipped) {
      return response;
    }
  }
}
