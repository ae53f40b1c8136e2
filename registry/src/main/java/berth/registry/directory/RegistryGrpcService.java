package berth.registry.directory;

import berth.metrics.Metrics;
import berth.registry.line.TurnLine;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Caller;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.StreamFeed;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
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
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Speaks gRPC for a {@link Directory} and a {@link TurnLine}; decides nothing itself. */
public final class RegistryGrpcService extends RegistryServiceGrpc.RegistryServiceImplBase
    implements AutoCloseable {
  private static final int MAX_WATCHERS = 20_000;
  private static final int MAX_WAITING = 2000;
  private static final int MAX_PAGE = 1000;
  private static final int MAX_PAGE_BYTES = 8 << 20;

  private final Directory directory;
  private final DirectoryMetrics metrics;
  private final TurnLine line;
  private final Executor threads;
  private final Executor storeThreads;
  private final Set<StreamFeed<WatchServersResponse>> watchers = ConcurrentHashMap.newKeySet();
  private final Set<StreamFeed<AwaitTurnResponse>> turns = ConcurrentHashMap.newKeySet();
  private final Set<HeartbeatGrpcService> heartbeats = ConcurrentHashMap.newKeySet();
  private final Semaphore waiting = new Semaphore(MAX_WAITING);
  private volatile boolean closed;

  /**
   * @param threads where watchers and those in line are served
   * @param storeThreads where is waited for the store; others than those that serve queries, which
   *     must not wait for it
   */
  public RegistryGrpcService(
      Directory directory,
      DirectoryMetrics metrics,
      TurnLine line,
      Executor threads,
      Executor storeThreads) {
    this.directory = directory;
    this.metrics = metrics;
    this.line = line;
    this.threads = threads;
    this.storeThreads = storeThreads;
  }

  /** Shows who is known and who listens among these metrics from now on. */
  public void reportTo(Metrics target) {
    RegistryMetrics.report(directory, watchers::size, line::length, target);
  }

  @Override
  public void register(RegisterRequest request, StreamObserver<RegisterResponse> observer) {
    try {
      ServerRules.check(request);
      checkReachable(request.getInfo());
    } catch (BerthException e) {
      refuse(observer, e);
      return;
    }
    inStore(
        observer,
        () -> {
          RegisterResponse response = directory.register(ServerRules.cleaned(request));
          metrics.registered();
          return response;
        });
  }

  @Override
  public StreamObserver<HeartbeatRequest> heartbeat(StreamObserver<HeartbeatResponse> observer) {
    HeartbeatGrpcService stream =
        new HeartbeatGrpcService(observer, directory, metrics, storeThreads);
    heartbeats.add(stream);
    stream.onEnd(() -> heartbeats.remove(stream));
    if (closed) {
      stream.fail(stopping());
    }
    return stream;
  }

  @Override
  public void deregister(DeregisterRequest request, StreamObserver<DeregisterResponse> observer) {
    inStore(
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
            Reason.EXHAUSTED, watchers.size() + " clients watch already, the maximum");
      }
      watch = new ServerWatch(directory.roster(), request.getFilter(), request.getAfterRevision());
    } catch (BerthException e) {
      refuse(observer, e);
      return;
    }
    StreamFeed<WatchServersResponse> feed =
        new StreamFeed<>(observer, new WatchSource(watch), threads);
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
    Replies.unary(observer, () -> ServerRanking.find(directory.roster(), request));
  }

  @Override
  public void awaitTurn(AwaitTurnRequest request, StreamObserver<AwaitTurnResponse> observer) {
    TurnLine.Place place;
    try {
      ServerRules.check(request);
      place = line.enter(request);
    } catch (BerthException e) {
      refuse(observer, e);
      return;
    }
    StreamFeed<AwaitTurnResponse> feed = new StreamFeed<>(observer, place, threads);
    turns.add(feed);
    feed.onEnd(
        () -> {
          place.leave();
          turns.remove(feed);
        });
    place.listen(feed::wake);
    place
        .settlesIn()
        .ifPresent(
            nanos ->
                CompletableFuture.delayedExecutor(nanos, TimeUnit.NANOSECONDS, threads)
                    .execute(place::settle));
    if (closed) {
      feed.fail(stopping());
    }
    feed.wake();
  }

  /** Ends all streams. */
  @Override
  public void close() {
    closed = true;
    watchers.forEach(feed -> feed.fail(stopping()));
    turns.forEach(feed -> feed.fail(stopping()));
    heartbeats.forEach(stream -> stream.fail(stopping()));
  }

  // Where it may wait, unless too many do; not for callers who have given up meanwhile.
  private <T> void inStore(StreamObserver<T> observer, Callable<T> work) {
    if (!waiting.tryAcquire()) {
      refuse(
          observer,
          new BerthException(Reason.UNAVAILABLE, MAX_WAITING + " calls wait for etcd already"));
      return;
    }
    ServerCallStreamObserver<T> call = (ServerCallStreamObserver<T>) observer;
    // Without a handler gRPC would throw at whoever answers after the end.
    call.setOnCancelHandler(() -> {});
    storeThreads.execute(
        () -> {
          try {
            if (!call.isCancelled()) {
              Replies.unary(observer, work);
            }
          } finally {
            waiting.release();
          }
        });
  }

  private static void refuse(StreamObserver<?> observer, BerthException why) {
    Replies.unary(
        observer,
        () -> {
          throw why;
        });
  }

  private static BerthException stopping() {
    return new BerthException(Reason.UNAVAILABLE, "this registry is stopping");
  }

  // Somebody elsewhere who is told of this address would call himself.
  private static void checkReachable(ServerInfo info) {
    if (Address.parse(info.getAddress(), 0).leadsNowhereElse() && !Caller.isOnThisMachine()) {
      throw new BerthException(
          Reason.INVALID,
          info.getName()
              + " advertises "
              + info.getAddress()
              + ", which only its own machine can reach: listen beyond loopback, or set --advertise"
              + " HOST:PORT");
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
