package berth.client.cluster;

import berth.client.call.RegistryClient;
import berth.client.call.ServerFeed;
import berth.client.call.ServerFeed.Snapshot;
import berth.client.call.Turn;
import berth.client.cluster.GangReservation.Refused;
import berth.client.spec.GpuServer;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.Owner;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * How a cluster gets everything that it needs: first its turn among the clusters that want some of
 * the same servers, then, as often as it takes, a plan and all of its reservations at once. While
 * it waits it holds nothing but its place in the line.
 */
final class Forming {
  /** What a registry knows of a server that has just refused is older than the refusal. */
  private static final Duration REST = Duration.ofMillis(300);

  /** A server that did not answer is asked again after this time. */
  private static final Duration LONG_REST = Duration.ofSeconds(3);

  /** How long a server may be away without which there can be no cluster. */
  private static final Duration AWAY = Duration.ofMinutes(1);

  private static final Duration LOOK_AGAIN = Duration.ofSeconds(1);
  private static final Duration FIRST_LOOK = Duration.ofSeconds(10);
  private static final Duration FOR_EVER = Duration.ofDays(36_500);

  private final RegistryClient registry;
  private final ClusterRequest request;
  private final Owner owner;
  private final boolean wasPossible;
  private final Set<String> avoided;
  private final Hosts hosts;
  private final ExecutorService threads;
  private final Consumer<String> waiting;
  private final long start = System.nanoTime();
  private final Map<String, Long> resting = new HashMap<>();
  private final Map<String, BerthException> refusals = new LinkedHashMap<>();
  private long possible = start;
  // Whether the servers that are known now could not have room even if they were empty.
  private boolean hopeless;
  private String lastTold = "";
  private volatile String obstacle = "";

  /**
   * @param wasPossible whether there was room once: what is missing since may come back, and is
   *     waited for
   * @param avoided names of servers that are taken only if there is no way without them
   * @param waiting is told what the cluster waits for, whenever that changes
   */
  Forming(
      RegistryClient registry,
      ClusterRequest request,
      Owner owner,
      boolean wasPossible,
      Set<String> avoided,
      Hosts hosts,
      ExecutorService threads,
      Consumer<String> waiting) {
    this.registry = registry;
    this.request = request;
    this.owner = owner;
    this.wasPossible = wasPossible;
    this.avoided = Set.copyOf(avoided);
    this.hosts = hosts;
    this.threads = threads;
    this.waiting = waiting;
  }

  /**
   * Returns when everything is reserved.
   *
   * @throws BerthException INVALID if that can never be, EXHAUSTED or TIMED_OUT if it was not
   *     within the time that the request gives; CANCELLED if this thread is interrupted
   */
  GangReservation form() {
    try (ServerFeed feed = new ServerFeed(registry)) {
      Snapshot snapshot = feed.after(0, FIRST_LOOK);
      checkPossible(snapshot.servers());
      snapshot = awaitPossible(feed, snapshot);
      Turn turn = turn(snapshot.servers(), Duration.ZERO);
      try {
        while (true) {
          if (hopeless) {
            // Those behind it may need nothing of what it waits for.
            turn.close();
          }
          if (!turn.held()) {
            // Also when the registry was lost: back to the old place in the line.
            snapshot = awaitPossible(feed, snapshot);
            turn = turn(snapshot.servers(), Duration.ofNanos(System.nanoTime() - start));
          }
          try {
            return attempt(feed.after(0, Duration.ZERO).servers());
          } catch (BerthException e) {
            if (e.reason() != Reason.EXHAUSTED) {
              throw e;
            }
            obstacle = e.getMessage();
          }
          if (left().isZero()) {
            throw timedOut();
          }
          tell(obstacle);
          snapshot = feed.after(snapshot.version(), shorter(left(), pause()));
        }
      } finally {
        turn.close();
      }
    }
  }

  // What can never be placed must not stand in the line.
  private void checkPossible(List<GpuServer> servers) {
    try {
      Planner.place(request, servers);
    } catch (BerthException e) {
      if (e.reason() != Reason.EXHAUSTED && !wasPossible) {
        throw e;
      }
      obstacle = e.getMessage();
    }
  }

  /**
   * Returns when there are servers that could have room: nobody can stand in the line for others.
   *
   * @throws BerthException INVALID if they have been away for too long
   */
  private Snapshot awaitPossible(ServerFeed feed, Snapshot known) {
    Snapshot snapshot = known;
    while (true) {
      try {
        look(snapshot.servers());
      } catch (BerthException e) {
        if (e.reason() != Reason.EXHAUSTED) {
          throw e;
        }
        obstacle = e.getMessage();
      }
      if (!hopeless) {
        return snapshot;
      }
      if (left().isZero()) {
        throw timedOut();
      }
      tell(obstacle);
      snapshot = feed.after(snapshot.version(), shorter(left(), LOOK_AGAIN));
    }
  }

  /**
   * One plan after the other, until one is reserved or none is left.
   *
   * @throws BerthException EXHAUSTED if there is no room now, anything else if there never will be
   */
  private GangReservation attempt(List<GpuServer> servers) {
    // Not between two plans: those that refuse slowly would be asked in turns for ever.
    resting.values().removeIf(until -> until - System.nanoTime() <= 0);
    while (true) {
      if (Thread.currentThread().isInterrupted()) {
        throw new BerthException(Reason.CANCELLED, "interrupted while reserving");
      }
      ClusterPlan plan = plan(servers);
      try {
        return GangReservation.reserve(request, owner, plan, hosts, threads);
      } catch (Refused e) {
        note(e);
      }
    }
  }

  private ClusterPlan plan(List<GpuServer> servers) {
    List<GpuServer> willing =
        servers.stream().filter(server -> !refusals.containsKey(server.name())).toList();
    look(willing);
    List<GpuServer> ready =
        willing.stream().filter(server -> !resting.containsKey(server.name())).toList();
    try {
      return placeWithoutAvoided(ready).orElseGet(() -> Planner.place(request, ready));
    } catch (BerthException e) {
      // Without those that have just refused, it may look as if it could never be.
      throw new BerthException(Reason.EXHAUSTED, resting.isEmpty() ? e.getMessage() : obstacle, e);
    }
  }

  /**
   * Finds out whether there is room on servers, or could be.
   *
   * @throws BerthException EXHAUSTED if there is none now, anything else if there never will be
   */
  private void look(List<GpuServer> servers) {
    hopeless = false;
    try {
      Planner.place(request, servers);
    } catch (BerthException e) {
      if (e.reason() != Reason.EXHAUSTED) {
        throw impossible(e);
      }
      possible = System.nanoTime();
      throw e;
    }
    possible = System.nanoTime();
  }

  private Optional<ClusterPlan> placeWithoutAvoided(List<GpuServer> servers) {
    if (avoided.isEmpty()) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          Planner.place(
              request,
              servers.stream().filter(server -> !avoided.contains(server.name())).toList()));
    } catch (BerthException e) {
      return Optional.empty();
    }
  }

  // It was possible once: a server may restart, or the registry, and be back soon.
  private BerthException impossible(BerthException why) {
    if (!refusals.isEmpty()) {
      return refusals.values().iterator().next();
    }
    hopeless = true;
    return wasPossible || System.nanoTime() - possible < AWAY.toNanos()
        ? new BerthException(Reason.EXHAUSTED, why.getMessage(), why)
        : why;
  }

  private void note(Refused refusal) {
    obstacle = refusal.getMessage();
    String server = refusal.server().name();
    switch (refusal.why().reason()) {
      case EXHAUSTED -> resting.put(server, System.nanoTime() + REST.toNanos());
      case UNAVAILABLE, TIMED_OUT -> resting.put(server, System.nanoTime() + LONG_REST.toNanos());
      case CANCELLED -> throw refusal.why();
      // It would say the same again.
      default ->
          refusals.put(
              server,
              new BerthException(refusal.why().reason(), refusal.getMessage(), refusal.why()));
    }
  }

  // Servers that rest come back without any news from the registry.
  private Duration pause() {
    return resting.isEmpty() ? LOOK_AGAIN : REST;
  }

  private Turn turn(List<GpuServer> servers, Duration waited) {
    Set<String> names = Planner.candidates(request, servers);
    AwaitTurnRequest asked =
        AwaitTurnRequest.newBuilder()
            .addAllServers(names)
            .setOwner(owner)
            .setPurpose("cluster " + request.name())
            .setWaited(Messages.duration(waited))
            .build();
    CompletableFuture<Turn> turn = new CompletableFuture<>();
    Future<?> waiting = threads.submit(() -> takeTurn(asked, turn));
    try {
      // One that does not wait takes its turn if it is the only one who wants one.
      Duration patience = left().isZero() ? LOOK_AGAIN : left();
      return turn.get(patience.toNanos(), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      throw timedOut();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while waiting for others", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BerthException why) {
        throw why;
      }
      throw new IllegalStateException(e.getCause());
    } finally {
      // Whichever comes first: if that is this, the turn is given back as soon as it is there.
      turn.cancel(false);
      waiting.cancel(true);
    }
  }

  private void takeTurn(AwaitTurnRequest asked, CompletableFuture<Turn> turn) {
    try {
      Turn mine = registry.awaitTurn(asked, this::ahead);
      if (!turn.complete(mine)) {
        mine.close();
      }
    } catch (RuntimeException | Error e) {
      turn.completeExceptionally(e);
    }
  }

  private void ahead(Ahead ahead) {
    obstacle =
        ahead.getCount() == 0
            ? "the registry has just started; clusters that waited before come first"
            : (ahead.getCount() == 1 ? "1 cluster comes" : ahead.getCount() + " clusters come")
                + " before it, next "
                + ahead.getPurpose()
                + " of "
                + ahead.getOwner().getUser()
                + ", queued for "
                + Duration.between(Messages.instant(ahead.getSince()), Instant.now()).toSeconds()
                + " s";
    tell(obstacle);
  }

  private void tell(String why) {
    if (!why.equals(lastTold)) {
      lastTold = why;
      waiting.accept(why);
    }
  }

  private Duration left() {
    if (request.waitAtMost().isEmpty()) {
      return FOR_EVER;
    }
    Duration left = request.waitAtMost().get().minusNanos(System.nanoTime() - start);
    return left.isNegative() ? Duration.ZERO : left;
  }

  private BerthException timedOut() {
    Duration limit = request.waitAtMost().orElse(FOR_EVER);
    return limit.isZero()
        ? new BerthException(Reason.EXHAUSTED, obstacle)
        : new BerthException(
            Reason.TIMED_OUT,
            "waited "
                + limit.toSeconds()
                + " s for room for the cluster "
                + request.name()
                + ": "
                + obstacle);
  }

  private static Duration shorter(Duration a, Duration b) {
    return a.compareTo(b) < 0 ? a : b;
  }
}
