package berth.fake;

import berth.rpc.Address;
import berth.rpc.RpcServer;
import berth.v1.ListReservationsRequest;
import berth.v1.ListReservationsResponse;
import berth.v1.ReleaseRequest;
import berth.v1.ReleaseResponse;
import berth.v1.RenewRequest;
import berth.v1.RenewResponse;
import berth.v1.Reservation;
import berth.v1.ReservationServiceGrpc;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BiConsumer;

/** A server that grants one reservation to everybody, unless a test says otherwise. */
public final class FakeReservations extends ReservationServiceGrpc.ReservationServiceImplBase
    implements AutoCloseable {
  public final List<ReserveRequest> asked = new CopyOnWriteArrayList<>();
  public final BlockingQueue<RenewRequest> renewed = new LinkedBlockingQueue<>();
  public final BlockingQueue<String> released = new LinkedBlockingQueue<>();
  public final ReserveResponse granted;
  public volatile ListReservationsResponse listed = ListReservationsResponse.getDefaultInstance();

  public volatile BiConsumer<ReserveRequest, StreamObserver<ReserveResponse>> onReserve;
  public volatile BiConsumer<RenewRequest, StreamObserver<RenewResponse>> onRenew =
      (request, stream) -> {
        stream.onNext(RenewResponse.getDefaultInstance());
        stream.onCompleted();
      };
  public volatile BiConsumer<ReleaseRequest, StreamObserver<ReleaseResponse>> onRelease =
      (request, stream) -> {
        stream.onNext(ReleaseResponse.getDefaultInstance());
        stream.onCompleted();
      };

  private final RpcServer server;

  public FakeReservations(String id) {
    this(Reservation.newBuilder().setReservationId(id).build());
  }

  public FakeReservations(Reservation reservation) {
    granted = ReserveResponse.newBuilder().setGranted(reservation).build();
    onReserve =
        (request, stream) -> {
          stream.onNext(granted);
          stream.onCompleted();
        };
    server = RpcServer.listenOn(new Address("127.0.0.1", 0)).service(this).start();
  }

  public Address address() {
    return server.address();
  }

  @Override
  public void close() {
    server.close();
  }

  @Override
  public void reserve(ReserveRequest request, StreamObserver<ReserveResponse> stream) {
    asked.add(request);
    onReserve.accept(request, stream);
  }

  @Override
  public void renew(RenewRequest request, StreamObserver<RenewResponse> stream) {
    renewed.add(request);
    onRenew.accept(request, stream);
  }

  @Override
  public void release(ReleaseRequest request, StreamObserver<ReleaseResponse> stream) {
    released.add(request.getReservationId());
    onRelease.accept(request, stream);
  }

  @Override
  public void listReservations(
      ListReservationsRequest request, StreamObserver<ListReservationsResponse> observer) {
    observer.onNext(listed);
    observer.onCompleted();
  }
}
