package berth.e2e.soak;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What is under way that a fault may hit, and what was hit. Any thread may call. */
final class SoakTargets {
  private final Map<String, SoakCommand> clients = new ConcurrentHashMap<>();
  private final Set<String> clusters = ConcurrentHashMap.newKeySet();
  private final Set<String> cancelled = ConcurrentHashMap.newKeySet();
  private final Map<String, Long> leftAlone = new ConcurrentHashMap<>();

  /** The client of a cluster or run of this name, which ends with it. */
  void began(String name, SoakCommand client) {
    clients.put(name, client);
  }

  void ended(String name) {
    clients.remove(name);
  }

  /** A cluster of this name is supervised. */
  void supervised(String name) {
    clusters.add(name);
  }

  void over(String name) {
    clusters.remove(name);
  }

  /** Kills a client; empty if there is none. */
  Optional<String> killClient(Random random) {
    Optional<String> name = any(List.copyOf(clients.keySet()), random);
    return name.filter(
        one -> {
          SoakCommand client = clients.remove(one);
          if (client == null || !client.process().isAlive()) {
            return false;
          }
          leave(one);
          client.kill();
          return true;
        });
  }

  /** Nobody wants it any more; it must be gone soon. */
  void leave(String name) {
    leftAlone.put(name, System.nanoTime());
  }

  /** Since when nobody wants which clusters and runs. */
  Map<String, Long> leftAlone() {
    return leftAlone;
  }

  /** Whether its client was killed. */
  boolean leftAlone(String name) {
    return leftAlone.containsKey(name);
  }

  /** A supervised cluster that has not ended. */
  Optional<String> anyCluster(Random random) {
    return any(List.copyOf(clusters), random);
  }

  /** Somebody is about to cancel it. */
  void cancel(String name) {
    cancelled.add(name);
  }

  /** Whether somebody may have cancelled it. */
  boolean cancelled(String name) {
    return cancelled.contains(name);
  }

  static <T> Optional<T> any(List<T> all, Random random) {
    List<T> some = new ArrayList<>(all);
    return some.isEmpty() ? Optional.empty() : Optional.of(some.get(random.nextInt(some.size())));
  }
}
