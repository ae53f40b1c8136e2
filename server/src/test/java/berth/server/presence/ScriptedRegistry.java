package berth.server.presence;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Replies;
import berth.rpc.RpcServer;
import berth.v1.DeregisterRequest;
import berth.v1.DeregisterResponse;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.RegistryServiceGrpc;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;

/** A registry that writes down what it is told, and answers what the test says. */
final class ScriptedRegistry extends RegistryServiceGrpc.RegistryServiceImplBase
    implements AutoCloseable {
  final List<RegisterRequest> registrations = new CopyOnWriteArrayList<>();
  final List<HeartbeatRequest> heartbeats = new CopyOnWriteArrayList<>();
  final List<DeregisterRequest> leavings = new CopyOnWriteArrayList<>();

  volatile boolean silent;
  volatile Optional<BerthException> refusal = Optional.empty();
  volatile HeartbeatResponse answer = HeartbeatResponse.newBuilder().setKnown(true).build();

  private final RpcServer server =
      RpcServer.listenOn(new Address("127.0.0.1", 0)).service(this).start();

  Address address() {
    return server.address();
  }

  @Override
  public void register(RegisterRequest request, StreamObserver<RegisterResponse> observer) {
    registrations.add(request);
    if (silent) {
      return;
    }
    Replies.unary(
        observer,
        () -> {
          if (refusal.isPresent()) {
            throw refusal.get();
          }
          return RegisterResponse.newBuilder()
              .setLeaseId("lease")
              .setLease(Messages.duration(Duration.ofSeconds(1)))
              .setHeartbeatInterval(Messages.duration(Duration.ofMillis(400)))
              .setGeneration(request.getGeneration() == 0 ? 7 : request.getGeneration())
              .build();
        });
  }

  @Override
  public StreamObserver<HeartbeatRequest> heartbeat(StreamObserver<HeartbeatResponse> observer) {
    return new StreamObserver<>() {
      @Override
      public void onNext(HeartbeatRequest request) {
        heartbeats.add(request);
        if (!silent) {
          observer.onNext(answer);
        }
      }

      @Override
      public void onError(Throwable failure) {}

      @Override
      public void onCompleted() {
        observer.onCompleted();
      }
    };
  }

  @Override
  public void deregister(DeregisterRequest request, StreamObserver<DeregisterResponse> observer) {
    leavings.add(request);
    Replies.unary(observer, DeregisterResponse::getDefaultInstance);
  }

  @Override
  public void close() {
    server.close();
  }
}
