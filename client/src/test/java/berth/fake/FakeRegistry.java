package berth.fake;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import berth.v1.Candidate;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ListServersRequest;
import berth.v1.ListServersResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BiConsumer;

/** A registry that says what a test wants it to, over a real connection. */
public final class FakeRegistry extends RegistryServiceGrpc.RegistryServiceImplBase
    implements AutoCloseable {
  /** Somebody in line, who hears what the test says. */
  public record Waiting(
      AwaitTurnRequest request, ServerCallStreamObserver<AwaitTurnResponse> stream) {}

  public final List<FindGpusRequest> asked = new CopyOnWriteArrayList<>();
  public final BlockingQueue<WatchServersRequest> watched = new LinkedBlockingQueue<>();
  public final BlockingQueue<Waiting> waiting = new LinkedBlockingQueue<>();

  public volatile FindGpusResponse found = FindGpusResponse.getDefaultInstance();
  public volatile List<Server> servers = List.of();
  public volatile int pageSize = 1000;
  public volatile BiConsumer<WatchServersRequest, StreamObserver<WatchServersResponse>> onWatch;

  private volatile Runnable onStop = () -> {};
  private RpcServer server = listen(new Address("127.0.0.1", 0));

  public Address address() {
    return server.address();
  }

  /** Stops, breaks off {@code stream} as it goes. */
  public void stop(StreamObserver<?> stream) {
    onStop =
        () ->
            stream.onError(
                Statuses.toException(new BerthException(Reason.UNAVAILABLE, "it stops")));
    server.close();
    onStop = () -> {};
  }

  /** Comes back at the same address. */
  public void start() {
    server = listen(server.address());
  }

  @Override
  public void close() {
    server.close();
  }

  private RpcServer listen(Address address) {
    return RpcServer.listenOn(address).service(this).endStreams(() -> onStop.run()).start();
  }

  /** A server of whose GPUs the first {@code free} are free. */
  public static Server server(String name, Address address, int free, int gpus) {
    ServerInfo.Builder info =
        ServerInfo.newBuilder().setName(name).setAddress(address.toString()).setCpus(8);
    ServerStatus.Builder status = ServerStatus.newBuilder().setCanRun(true);
    for (int i = 0; i < gpus; i++) {
      info.addGpus(GpuInfo.newBuilder().setIndex(i).setUuid(name + "-" + i).setModel("A100"));
      status.addGpus(
          GpuStatus.newBuilder()
              .setIndex(i)
              .setState(i < free ? GpuState.GPU_STATE_FREE : GpuState.GPU_STATE_RESERVED));
    }
    return Server.newBuilder().setInfo(info).setStatus(status).build();
  }

  public static Candidate candidate(Server server, boolean now) {
    return Candidate.newBuilder().setServer(server).setNow(now).build();
  }

  public void find(Candidate... candidates) {
    found = FindGpusResponse.newBuilder().addAllCandidates(List.of(candidates)).build();
  }

  @Override
  public void findGpus(FindGpusRequest request, StreamObserver<FindGpusResponse> observer) {
    asked.add(request);
    Replies.unary(observer, () -> found);
  }

  @Override
  public void listServers(
      ListServersRequest request, StreamObserver<ListServersResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          int from =
              request.getPageToken().isEmpty() ? 0 : Integer.parseInt(request.getPageToken());
          int to = Math.min(servers.size(), from + pageSize);
          return ListServersResponse.newBuilder()
              .addAllServers(servers.subList(from, to))
              .setNextPageToken(to < servers.size() ? "" + to : "")
              .build();
        });
  }

  @Override
  public void watchServers(
      WatchServersRequest request, StreamObserver<WatchServersResponse> observer) {
    onWatch.accept(request, observer);
    watched.add(request);
  }

  @Override
  public void awaitTurn(AwaitTurnRequest request, StreamObserver<AwaitTurnResponse> observer) {
    ServerCallStreamObserver<AwaitTurnResponse> stream =
        (ServerCallStreamObserver<AwaitTurnResponse>) observer;
    stream.setOnCancelHandler(() -> {});
    waiting.add(new Waiting(request, stream));
  }
}
