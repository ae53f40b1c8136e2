package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcChannel;
import berth.rpc.Statuses;
import berth.v1.ListReservationsRequest;
import berth.v1.ListReservationsResponse;
import berth.v1.ReleaseRequest;
import berth.v1.RenewRequest;
import berth.v1.RenewResponse;
import berth.v1.Reservation;
import berth.v1.ReservationServiceGrpc;
import berth.v1.ReservationServiceGrpc.ReservationServiceBlockingStub;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.SetDrainingRequest;
import berth.v1.SetDrainingResponse;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The reservations of one server. Any thread may call; every failure is a {@link BerthException}.
 * Closing it ends the calls that still run, and with them what lives by their streams.
 */
public final class ReservationClient implements AutoCloseable {
  private final RpcChannel channel;
  private final String peer;

  private ReservationClient(RpcChannel channel, String peer) {
    this.channel = channel;
    this.peer = peer;
  }

  /** A client of the {@code berthd} at {@code server}. It connects with its first call. */
  public static ReservationClient of(Address server) {
    return over(RpcChannel.to(server), server);
  }

  /** The same over a connection that others use too; closing one of them closes it. */
  static ReservationClient over(RpcChannel channel, Address server) {
    return new ReservationClient(channel, "berthd at " + server);
  }

  /**
   * Reserves, and passes what happens to {@code consumer} in the calling thread. Returns when the
   * stream ends: after the grant, or, for a reservation that lives by the stream, when that is
   * over.
   */
  public void reserve(ReserveRequest request, Consumer<ReserveResponse> consumer) {
    calling(
        stub -> {
          Iterator<ReserveResponse> responses = stub.reserve(request);
          while (responses.hasNext()) {
            consumer.accept(responses.next());
          }
          return null;
        });
  }

  /**
   * Reserves what is free now, or nothing.
   *
   * @param request one that does not wait, and does not live by its stream
   * @throws BerthException also if the server does not answer in time: then nobody knows whether it
   *     has reserved, and the same request id tells
   */
  public Reservation reserveNow(ReserveRequest request, Duration timeout) {
    return calling(
        stub -> {
          Iterator<ReserveResponse> responses = within(stub, timeout).reserve(request);
          Reservation granted = null;
          while (responses.hasNext()) {
            granted = responses.next().getGranted();
          }
          if (granted == null) {
            throw new BerthException(Reason.INTERNAL, peer + " ended the call without an answer");
          }
          return granted;
        });
  }

  public RenewResponse renew(RenewRequest request, Duration timeout) {
    return calling(stub -> within(stub, timeout).renew(request));
  }

  public void release(String reservationId, Duration timeout) {
    calling(
        stub ->
            within(stub, timeout)
                .release(ReleaseRequest.newBuilder().setReservationId(reservationId).build()));
  }

  public ListReservationsResponse listReservations(Duration timeout) {
    return calling(
        stub ->
            within(stub, timeout).listReservations(ListReservationsRequest.getDefaultInstance()));
  }

  public SetDrainingResponse setDraining(boolean draining, Duration timeout) {
    return calling(
        stub ->
            within(stub, timeout)
                .setDraining(SetDrainingRequest.newBuilder().setDraining(draining).build()));
  }

  @Override
  public void close() {
    channel.close();
  }

  /** Connects with the next call, however many attempts have failed. */
  public void connectNow() {
    channel.connectNow();
  }

  private <T> T calling(Function<ReservationServiceBlockingStub, T> call) {
    try {
      return call.apply(ReservationServiceGrpc.newBlockingStub(channel.channel()));
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  private static ReservationServiceBlockingStub within(
      ReservationServiceBlockingStub stub, Duration timeout) {
    return stub.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }
}
