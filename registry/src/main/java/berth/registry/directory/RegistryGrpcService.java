package berth.registry.directory;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Caller;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.StreamFeed;
import berth.v1.DeregisterRequest;
import berth.v1.DeregisterResponse;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.ListServersRequest;
import berth.v1.ListServersResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.ServerInfo;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.stub.StreamObserver;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;

/** Speaks gRPC for a {@link Directory}; decides nothing itself. */
public final class RegistryGrpcService extends RegistryServiceGrpc.RegistryServiceImplBase
    implements AutoCloseable {
  private static final int MAX_WATCHERS = 20_000;
  private static final int MAX_PAGE = 1000;
  private static final int MAX_PAGE_BYTES = 8 << 20;

  private final Directory directory;
  private final ExecutorService executor;
  private final Set<StreamFeed<WatchServersResponse>> watchers = ConcurrentHashMap.newKeySet();
  private final Set<HeartbeatGrpcService> heartbeats = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  /**
   * @param executor where heartbeats are taken and watchers are served; with a bounded number of
   *     threads, as each may wait for the store
   */
  public RegistryGrpcService(Directory directory, ExecutorService executor) {
    this.directory = directory;
    this.executor = executor;
  }

  @Override
  public void register(RegisterRequest request, StreamObserver<RegisterResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          ServerRules.check(request);
          checkReachable(request.getInfo());
          return directory.register(request);
        });
  }

  @Override
  public StreamObserver<HeartbeatRequest> heartbeat(StreamObserver<HeartbeatResponse> observer) {
    HeartbeatGrpcService stream = new HeartbeatGrpcService(observer, directory, executor);
    heartbeats.add(stream);
    stream.onEnd(() -> heartbeats.remove(stream));
    if (closed) {
      stream.fail(stopping());
    }
    return stream;
  }

  @Override
  public void deregister(DeregisterRequest request, StreamObserver<DeregisterResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          directory.deregister(request.getName(), request.getInstance());
          return DeregisterResponse.getDefaultInstance();
        });
  }

  @Override
  public void listServers(
      ListServersRequest request, StreamObserver<ListServersResponse> observer) {
    Replies.unary(observer, () -> page(request));
  }

  @Override
  public void watchServers(
      WatchServersRequest request, StreamObserver<WatchServersResponse> observer) {
    ServerWatch watch;
    try {
      if (watchers.size() >= MAX_WATCHERS) {
        throw new BerthException(
            Reason.EXHAUSTED, watchers.size() + " watch already, which is as many as may");
      }
      watch = new ServerWatch(directory.roster(), request.getFilter(), request.getAfterRevision());
    } catch (BerthException e) {
      Replies.unary(
          observer,
          () -> {
            throw e;
          });
      return;
    }
    StreamFeed<WatchServersResponse> feed =
        new StreamFeed<>(observer, new WatchSource(watch), executor);
    Runnable unlisten = directory.roster().listen(feed::wake);
    watchers.add(feed);
    feed.onEnd(
        () -> {
          unlisten.run();
          watchers.remove(feed);
        });
    if (closed) {
      feed.fail(stopping());
    }
    feed.wake();
  }

  @Override
  public void findGpus(FindGpusRequest request, StreamObserver<FindGpusResponse> observer) {
    Replies.unary(observer, () -> Placement.find(directory.roster(), request));
  }

  /** Ends all streams. */
  @Override
  public void close() {
    closed = true;
    watchers.forEach(feed -> feed.fail(stopping()));
    heartbeats.forEach(stream -> stream.fail(stopping()));
  }

  private static BerthException stopping() {
    return new BerthException(Reason.UNAVAILABLE, "this registry is stopping");
  }

  // Somebody elsewhere who is told of this address would call himself.
  private static void checkReachable(ServerInfo info) {
    String host = Address.parse(info.getAddress(), 0).host();
    boolean loopback =
        host.equalsIgnoreCase("localhost") || host.startsWith("127.") || host.equals("::1");
    if (loopback && !Caller.isOnThisMachine()) {
      throw new BerthException(
          Reason.INVALID,
          info.getName()
              + " says that it is at "
              + info.getAddress()
              + ", where only its own machine finds it: let it listen beyond loopback, or say"
              + " --advertise HOST:PORT");
    }
  }

  private ListServersResponse page(ListServersRequest request) {
    int size = request.getPageSize() == 0 ? MAX_PAGE : request.getPageSize();
    if (size < 0 || size > MAX_PAGE) {
      throw new BerthException(Reason.INVALID, "at most " + MAX_PAGE + " servers a page");
    }
    ServerQuery query = ServerQuery.of(request.getFilter());
    ListServersResponse.Builder response = ListServersResponse.newBuilder();
    int bytes = 0;
    String last = "";
    for (Listed listed : directory.roster().after(request.getPageToken())) {
      if (query.matches(listed)) {
        if (response.getServersCount() == size || bytes > MAX_PAGE_BYTES) {
          return response.setNextPageToken(last).build();
        }
        response.addServers(listed.server());
        bytes += listed.server().getSerializedSize();
        last = listed.name();
      }
    }
    return response.build();
  }

  private record WatchSource(ServerWatch watch) implements StreamFeed.Source<WatchServersResponse> {
    @Override
    public WatchServersResponse next() {
      return watch.next();
    }

    @Override
    public boolean ended() {
      return false;
    }
  }
}
