package berth.server.overview;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.StreamFeed;
import berth.v1.OverviewServiceGrpc;
import berth.v1.WatchOverviewRequest;
import berth.v1.WatchOverviewResponse;
import io.grpc.stub.StreamObserver;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;

/** Speaks gRPC for {@link Lookout}; decides nothing itself. */
public final class OverviewGrpcService extends OverviewServiceGrpc.OverviewServiceImplBase
    implements AutoCloseable {
  private final OverviewPoller lookout;
  private final Set<StreamFeed<?>> watchers = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  public OverviewGrpcService(OverviewPoller lookout) {
    this.lookout = lookout;
  }

  @Override
  public void watchOverview(
      WatchOverviewRequest request, StreamObserver<WatchOverviewResponse> observer) {
    // Making a message of what was seen takes no time, so no other thread is needed for it.
    Executor here = Runnable::run;
    StreamFeed<WatchOverviewResponse> feed = new StreamFeed<>(observer, new Reader(), here);
    watchers.add(feed);
    Runnable unwatch = lookout.watch(feed::wake);
    feed.onEnd(
        () -> {
          unwatch.run();
          watchers.remove(feed);
        });
    if (closed) {
      feed.fail(stopping());
    }
  }

  /** Ends all streams. */
  @Override
  public void close() {
    closed = true;
    watchers.forEach(feed -> feed.fail(stopping()));
  }

  private static BerthException stopping() {
    return new BerthException(Reason.UNAVAILABLE, "this server is stopping");
  }

  /** One who watches: what it was told last is all that is remembered of it. */
  private final class Reader implements StreamFeed.Source<WatchOverviewResponse> {
    private OverviewSnapshot told = OverviewSnapshot.NONE;

    @Override
    public WatchOverviewResponse next() {
      OverviewSnapshot now = lookout.newest();
      WatchOverviewResponse news = now.news(told);
      told = now;
      return news;
    }

    @Override
    public boolean ended() {
      return false;
    }
  }
}
