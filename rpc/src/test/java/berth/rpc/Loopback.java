package berth.rpc;

import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import io.grpc.BindableService;
import io.grpc.Channel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.function.UnaryOperator;

/** A real server on a free loopback port, and a connection to it. */
final class Loopback implements AutoCloseable {
  private final RpcServer server;
  private final RpcChannel channel;

  private Loopback(RpcServer server) {
    this.server = server;
    this.channel = RpcChannel.to(server.address());
  }

  static Loopback serving(BindableService service) {
    return serving(service, UnaryOperator.identity());
  }

  static Loopback serving(BindableService service, UnaryOperator<RpcServer.Builder> how) {
    return new Loopback(
        how.apply(RpcServer.listenOn(new Address("127.0.0.1", 0)).service(service)).start());
  }

  /** Serves GPUs that nobody implemented. */
  static Loopback servingNothing() {
    return serving(new GpuServiceImplBase() {});
  }

  /** An address of this machine where nobody listens. */
  static Address closedPort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return new Address("127.0.0.1", socket.getLocalPort());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  Address address() {
    return server.address();
  }

  Channel channel() {
    return channel.channel();
  }

  GpuServiceGrpc.GpuServiceBlockingStub gpus() {
    return GpuServiceGrpc.newBlockingStub(channel());
  }

  // The connection goes first: a server waits for the calls that still run.
  @Override
  public void close() {
    channel.close();
    server.close();
  }
}
