package berth.client.call;

import berth.client.spec.GpuServer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.Replicas;
import berth.rpc.Replicas.Replica;
import berth.rpc.Statuses;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.ListServersRequest;
import berth.v1.ListServersResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.RegistryServiceGrpc.RegistryServiceBlockingStub;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.Channel;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The servers of a group, as its registries know them; one that does not answer is left for the
 * next. Any thread may call; every failure is a {@link BerthException}. A thread that is
 * interrupted ends its call, and closing this ends all that still run.
 */
public final class RegistryClient implements ServerSource {
  /** Where registries listen unless they are told otherwise. */
  public static final int PORT = 18811;

  private static final Duration ATTEMPT = Duration.ofSeconds(2);
  private static final Duration PATIENCE = Duration.ofSeconds(3);
  private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);
  private static final Duration PATIENCE_IN_LINE = Duration.ofSeconds(30);

  /** Is told of servers, in the thread that watches. */
  public interface Watcher {
    /**
     * What is new: all servers at first, then those that changed and those that went.
     *
     * <p>What is told adds up to what the registry knows, over broken connections and restarts too:
     * {@code reset} is never set, {@code complete} always, and {@code removed} names only servers
     * that were told before.
     */
    void changed(WatchServersResponse news);

    /** No registry answers at present; what was told may grow old until the next change. */
    default void lost(BerthException why) {}
  }

  private final Replicas replicas;
  private final String names;
  private volatile boolean closed;

  private RegistryClient(List<Address> registries) {
    this.replicas = new Replicas("registry", registries);
    this.names = registries.stream().map(Address::toString).collect(Collectors.joining(", "));
  }

  /** A client of registries that are equal, at least one. It connects with its first call. */
  public static RegistryClient of(List<Address> registries) {
    return new RegistryClient(registries);
  }

  @Override
  public List<Server> listServers(ServerFilter filter) {
    List<Server> servers = new ArrayList<>();
    ListServersRequest.Builder request = ListServersRequest.newBuilder().setFilter(filter);
    do {
      ListServersResponse page = calling(stub -> stub.listServers(request.build()));
      servers.addAll(page.getServersList());
      request.setPageToken(page.getNextPageToken());
    } while (!request.getPageToken().isEmpty());
    return servers;
  }

  /** Returns all servers, by name. */
  public List<GpuServer> servers() {
    return listServers(ServerFilter.getDefaultInstance()).stream().map(GpuServers::of).toList();
  }

  @Override
  public FindGpusResponse findGpus(FindGpusRequest request) {
    return calling(stub -> stub.findGpus(request));
  }

  /**
   * Tells {@code watcher} of the servers that pass a filter and of all changes among them, in the
   * calling thread, until that is interrupted or this is closed.
   *
   * @throws BerthException when it ends; also if no registry answers in the beginning, or refuses
   */
  public void watchServers(ServerFilter filter, Watcher watcher) {
    WatchedServers servers = new WatchedServers();
    Replica replica = replicas.current();
    long lastHeard = System.nanoTime();
    boolean everHeard = false;
    boolean toldLost = false;
    Duration pause = FIRST_PAUSE;
    while (true) {
      long before = servers.heard();
      BerthException broken = watchOnce(replica, filter, servers, watcher);
      boolean heard = servers.heard() > before;
      if (closed) {
        throw new BerthException(Reason.CANCELLED, "the client was closed", broken);
      }
      if (broken.reason() == Reason.INVALID && !servers.revision().isEmpty()) {
        // A mark of another store.
        servers.beginAnew();
      } else if (!mayPass(broken)) {
        throw broken;
      }
      if (heard) {
        everHeard = true;
        toldLost = false;
        pause = FIRST_PAUSE;
        lastHeard = System.nanoTime();
      } else if (!everHeard && System.nanoTime() - lastHeard > PATIENCE.toNanos()) {
        throw explained(broken);
      } else if (everHeard && !toldLost && System.nanoTime() - lastHeard > ATTEMPT.toNanos()) {
        toldLost = true;
        watcher.lost(broken);
      }
      sleep(pause);
      pause =
          pause.multipliedBy(2).compareTo(LONGEST_PAUSE) < 0
              ? pause.multipliedBy(2)
              : LONGEST_PAUSE;
      replica = replicas.after(replica);
    }
  }

  private BerthException watchOnce(
      Replica replica, ServerFilter filter, WatchedServers servers, Watcher watcher) {
    servers.beginStream();
    WatchServersRequest request =
        WatchServersRequest.newBuilder()
            .setFilter(filter)
            .setAfterRevision(servers.revision())
            .build();
    try {
      // A stream has no deadline: one that never begins would be waited for.
      within(replica.channel()).listServers(ListServersRequest.newBuilder().setPageSize(1).build());
      stream(replica, request, response -> servers.take(response).ifPresent(watcher::changed));
      return new BerthException(Reason.UNAVAILABLE, replica.peer() + " ended the stream");
    } catch (StatusRuntimeException e) {
      return Statuses.fromStatus(e, replica.peer());
    }
  }

  private static void stream(
      Replica replica, WatchServersRequest request, Consumer<WatchServersResponse> consumer) {
    // An iterator that is given up would leave its call open.
    Context.CancellableContext context = Context.current().withCancellation();
    try {
      context.run(
          () ->
              RegistryServiceGrpc.newBlockingStub(replica.channel())
                  .watchServers(request)
                  .forEachRemaining(consumer));
    } finally {
      context.cancel(null);
    }
  }

  /**
   * Waits in the line of those who want to reserve on several servers at once, until it is this
   * caller's turn. The line is that of the first registry that answers, by address, so all who know
   * the registries by the same addresses stand in the same. If it is lost, this goes on at the next
   * one with the time waited so far, and goes back when the first is there again.
   *
   * @param request its {@code waited} is what was waited before this call
   * @param listener is told who is ahead whenever that changes, in the calling thread
   * @throws BerthException CANCELLED if the thread is interrupted or this is closed; UNAVAILABLE or
   *     TIMED_OUT if no registry answers in the beginning, or for half a minute later; or what a
   *     registry says that refuses. Then the line is left.
   */
  public Turn awaitTurn(AwaitTurnRequest request, Consumer<Ahead> listener) {
    List<Replica> registries = replicas.inOrder();
    long lastHeard = System.nanoTime();
    long stoodSince = lastHeard;
    boolean stood = false;
    int index = 0;
    while (true) {
      if (!stood) {
        stoodSince = System.nanoTime();
      }
      TurnClient place =
          TurnClient.open(
              registries.get(index), stood ? waitedSince(stoodSince, request) : request);
      List<Replica> earlier = registries.subList(0, index);
      if (place.awaitTurn(() -> anyAnswers(earlier), listener)) {
        return place;
      }
      BerthException broken = place.broken();
      if (closed) {
        throw new BerthException(Reason.CANCELLED, "the client was closed", broken);
      }
      if (broken.reason() != Reason.UNAVAILABLE && broken.reason() != Reason.TIMED_OUT) {
        throw broken;
      }
      if (place.heard()) {
        lastHeard = System.nanoTime();
        stood = true;
        index = 0;
      } else {
        index = (index + 1) % registries.size();
      }
      if (index == 0) {
        Duration patience = stood ? PATIENCE_IN_LINE : PATIENCE;
        if (System.nanoTime() - lastHeard > patience.toNanos()) {
          throw explained(broken);
        }
        sleep(FIRST_PAUSE);
      }
    }
  }

  private static AwaitTurnRequest waitedSince(long since, AwaitTurnRequest request) {
    Duration before = Messages.duration(request.getWaited());
    Duration here = Duration.ofNanos(System.nanoTime() - since);
    return request.toBuilder().setWaited(Messages.duration(before.plus(here))).build();
  }

  private static boolean anyAnswers(List<Replica> registries) {
    for (Replica registry : registries) {
      try {
        registry.connection().connectNow();
        within(registry.channel())
            .listServers(ListServersRequest.newBuilder().setPageSize(1).build());
        return true;
      } catch (StatusRuntimeException e) {
        // Not this one.
      }
    }
    return false;
  }

  private static boolean mayPass(BerthException failure) {
    return switch (failure.reason()) {
      case UNAVAILABLE, TIMED_OUT, EXHAUSTED -> true;
      default -> false;
    };
  }

  @Override
  public Optional<RegistryClient> registry() {
    return Optional.of(this);
  }

  @Override
  public void close() {
    closed = true;
    replicas.close();
  }

  /** Where the registries are, for messages. */
  @Override
  public String toString() {
    return names;
  }

  private <T> T calling(Function<RegistryServiceBlockingStub, T> call) {
    try {
      return replicas.call(PATIENCE, channel -> call.apply(within(channel)));
    } catch (BerthException e) {
      throw explained(e);
    }
  }

  private BerthException explained(BerthException failure) {
    if (!mayPass(failure)) {
      return failure;
    }
    String which =
        replicas.size() == 1 ? "" : "none of the registries " + names + " serves; the last: ";
    return new BerthException(
        failure.reason(),
        which + failure.getMessage() + "; start berth-registry there, or use --server",
        failure);
  }

  private static RegistryServiceBlockingStub within(Channel channel) {
    return RegistryServiceGrpc.newBlockingStub(channel)
        .withDeadlineAfter(ATTEMPT.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static void sleep(Duration pause) {
    try {
      TimeUnit.NANOSECONDS.sleep(pause.toNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while waiting for a registry", e);
    }
  }
}
