package berth.rpc;

import berth.v1.ClusterServiceGrpc;
import berth.v1.GpuServiceGrpc;
import berth.v1.OverviewServiceGrpc;
import berth.v1.RegistryServiceGrpc;
import berth.v1.ReservationServiceGrpc;
import berth.v1.RunServiceGrpc;
import io.grpc.HandlerRegistry;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import java.util.List;
import java.util.Optional;

/**
 * Answers calls that are meant for the other of the two daemons. They are as unknown as any, and
 * the caller learns who answers, so that it can tell a wrong address from an old daemon.
 */
final class OtherDaemon extends HandlerRegistry {
  /** The trailer with the name of the daemon. */
  static final Metadata.Key<String> WHO =
      Metadata.Key.of("berth-daemon", Metadata.ASCII_STRING_MARSHALLER);

  static final String REGISTRY = "registry";
  static final String BERTHD = "berthd";

  private static final ServiceDescriptor OF_REGISTRY = RegistryServiceGrpc.getServiceDescriptor();
  private static final List<ServiceDescriptor> OF_BERTHD =
      List.of(
          GpuServiceGrpc.getServiceDescriptor(),
          RunServiceGrpc.getServiceDescriptor(),
          ReservationServiceGrpc.getServiceDescriptor(),
          ClusterServiceGrpc.getServiceDescriptor(),
          OverviewServiceGrpc.getServiceDescriptor());

  private final String self;
  private final List<ServiceDescriptor> others;

  private OtherDaemon(String self, List<ServiceDescriptor> others) {
    this.self = self;
    this.others = others;
  }

  /** What answers in a server of these services; empty if they are those of neither daemon. */
  static Optional<OtherDaemon> beside(List<ServerServiceDefinition> services) {
    List<String> served =
        services.stream().map(service -> service.getServiceDescriptor().getName()).toList();
    if (served.contains(OF_REGISTRY.getName())) {
      return Optional.of(new OtherDaemon(REGISTRY, OF_BERTHD));
    }
    return OF_BERTHD.stream().anyMatch(service -> served.contains(service.getName()))
        ? Optional.of(new OtherDaemon(BERTHD, List.of(OF_REGISTRY)))
        : Optional.empty();
  }

  // Only methods that are known, or strangers could fill the metrics with names.
  @Override
  public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
    return others.stream()
        .flatMap(service -> service.getMethods().stream())
        .filter(method -> method.getFullMethodName().equals(name))
        .findFirst()
        .map(this::refusing)
        .orElse(null);
  }

  private <Q, A> ServerMethodDefinition<Q, A> refusing(MethodDescriptor<Q, A> method) {
    return ServerMethodDefinition.create(
        method,
        (call, headers) -> {
          Metadata trailers = new Metadata();
          trailers.put(WHO, self);
          call.close(
              Status.UNIMPLEMENTED.withDescription(
                  "Method not found: " + method.getFullMethodName()),
              trailers);
          return new ServerCall.Listener<>() {};
        });
  }
}
