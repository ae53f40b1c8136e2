package berth.registry.web;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.RpcThreads;
import berth.v1.WatchOverviewResponse;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** The stream of one server, which arrives in other threads than the one that reads it here. */
final class Link implements AutoCloseable, ServerClient.Stream<WatchOverviewResponse> {
  private final ServerClient client;
  private final ServerClient.Reading reading;
  private final Queue<WatchOverviewResponse> arrived = new ConcurrentLinkedQueue<>();
  private volatile BerthException failure;
  private volatile boolean ended;

  Link(Address address, RpcThreads threads) {
    client = new ServerClient(address, threads);
    reading = client.watchOverview(this);
  }

  ServerClient client() {
    return client;
  }

  /** The next piece of news; null if there is none. */
  WatchOverviewResponse poll() {
    return arrived.poll();
  }

  /** Why it has ended; empty while it goes on. */
  Optional<String> broken() {
    if (!ended) {
      return Optional.empty();
    }
    return Optional.of(failure == null ? "it ended the stream" : failure.getMessage());
  }

  // It tells twice a second at most, and the reader looks every second.
  @Override
  public boolean next(WatchOverviewResponse message) {
    arrived.add(message);
    return true;
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
