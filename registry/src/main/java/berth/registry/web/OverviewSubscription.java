package berth.registry.web;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.RpcThreads;
import berth.v1.WatchOverviewResponse;
import java.util.LinkedList;
import java.util.Optional;
import java.util.Queue;

/** The stream of one server, which arrives in other threads than the one that reads it here. */
final class OverviewSubscription
    implements AutoCloseable, ServerClient.Stream<WatchOverviewResponse> {
  // It tells twice a second at most, and the reader looks every second.
  private static final int MOST_WAITING = 8;

  private final ServerClient client;
  private final ServerClient.Reading reading;
  private final Queue<WatchOverviewResponse> arrived = new LinkedList<>();
  private boolean paused;
  private volatile BerthException failure;
  private volatile boolean ended;

  OverviewSubscription(Address address, RpcThreads threads) {
    client = new ServerClient(address, threads);
    reading = client.watchOverview(this);
  }

  ServerClient client() {
    return client;
  }

  /** The next piece of news; null if there is none. */
  WatchOverviewResponse poll() {
    WatchOverviewResponse next;
    boolean goOn;
    synchronized (this) {
      next = arrived.poll();
      goOn = paused && arrived.isEmpty();
      paused &= !goOn;
    }
    if (goOn) {
      reading.more();
    }
    return next;
  }

  /** Why it has ended; empty while it goes on. */
  Optional<String> broken() {
    if (!ended) {
      return Optional.empty();
    }
    return Optional.of(failure == null ? "it ended the stream" : failure.getMessage());
  }

  @Override
  public synchronized boolean next(WatchOverviewResponse message) {
    arrived.add(message);
    paused = arrived.size() >= MOST_WAITING;
    return !paused;
  }

  @Override
  public void ended(BerthException why) {
    failure = why;
    ended = true;
  }

  @Override
  public void close() {
    reading.cancel();
    client.close();
  }
}
