package berth.client.cluster;

import berth.client.call.RegistryClient;
import berth.fake.FakeRegistry;
import berth.fake.FakeServer;
import berth.v1.AwaitTurnResponse;
import berth.v1.Server;
import berth.v1.WatchServersResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** A registry that says of servers what a test wants, whatever they are, and gives turns to all. */
final class FakeGroup implements AutoCloseable {
  static final Duration AT_ONCE = Duration.ZERO;

  /** Longer than any test. */
  static final Duration NEVER = Duration.ofDays(1);

  final FakeRegistry registry = new FakeRegistry();
  final RegistryClient client = RegistryClient.of(List.of(registry.address()));

  private final List<FakeServer> servers = new ArrayList<>();
  private final List<Server> known = new CopyOnWriteArrayList<>();
  private final List<StreamObserver<WatchServersResponse>> watchers = new CopyOnWriteArrayList<>();
  private final AtomicInteger revision = new AtomicInteger();
  private final Thread turns = new Thread(this::giveTurns, "turns");

  FakeGroup() {
    registry.onWatch =
        (request, watcher) -> {
          ((ServerCallStreamObserver<WatchServersResponse>) watcher)
              .setOnCancelHandler(() -> watchers.remove(watcher));
          watcher.onNext(news().setReset(true).addAllServers(known).build());
          watchers.add(watcher);
        };
    turns.setDaemon(true);
  }

  private WatchServersResponse.Builder news() {
    return WatchServersResponse.newBuilder()
        .setComplete(true)
        .setRevision("" + revision.incrementAndGet());
  }

  private void giveTurns() {
    try {
      while (true) {
        registry.waiting.take().stream()
            .onNext(AwaitTurnResponse.newBuilder().setTurn(true).build());
      }
    } catch (InterruptedException e) {
      // The test is over.
    }
  }

  FakeGroup givingTurns() {
    turns.start();
    return this;
  }

  /** A server that has one GPU, which is free as far as the registry knows. */
  FakeServer server(String name, Duration reserving, Duration starting) {
    FakeServer server = new FakeServer(name, reserving, starting);
    servers.add(server);
    known.add(FakeRegistry.server(name, server.address(), 1, 1));
    return server;
  }

  /** Lets the registry say something of a server. */
  void tell(Server server) {
    knows(server);
    WatchServersResponse change = news().addServers(server).build();
    watchers.forEach(watcher -> watcher.onNext(change));
  }

  /** Lets the registry say that a server is gone. */
  void tellGone(String name) {
    known.removeIf(each -> each.getInfo().getName().equals(name));
    WatchServersResponse change = news().addRemoved(name).build();
    watchers.forEach(watcher -> watcher.onNext(change));
  }

  /** Lets the registry know a server from the beginning, such as one that is busy. */
  void knows(Server server) {
    known.removeIf(each -> each.getInfo().getName().equals(server.getInfo().getName()));
    known.add(server);
  }

  Cluster start(ClusterRequest.Builder request, Consumer<ClusterEvent> listener) {
    return Cluster.start(client, request.build(), listener);
  }

  @Override
  public void close() {
    turns.interrupt();
    client.close();
    servers.forEach(FakeServer::close);
    registry.close();
  }
}
