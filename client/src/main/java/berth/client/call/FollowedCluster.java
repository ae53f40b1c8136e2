package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * Follows one supervised cluster over broken connections and restarts of the server that supervises
 * it.
 *
 * <p>To be used once, by one thread, in which the watcher is called too; an interrupt ends it.
 */
public final class FollowedCluster {
  /** Is told what happens. */
  public interface Watcher {
    /** How the cluster is now. After a broken connection that may be as it was before. */
    void changed(ClusterStatus status);

    /** The server is lost, and asked again until it is back; told once for each time. */
    void lost(BerthException why);
  }

  /** Says that no more states are wanted. */
  private static final class Enough extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Enough() {
      super(null, null, false, false);
    }
  }

  private static final FollowedRun.Patience PATIENCE =
      new FollowedRun.Patience(
          Duration.ofMillis(100), Duration.ofSeconds(5), Duration.ofSeconds(90));

  private final ClusterClient client;
  private final Watcher watcher;
  private final FollowedRun.Patience patience;

  private ClusterStatus newest = ClusterStatus.getDefaultInstance();
  private boolean heardSomething;

  public FollowedCluster(ClusterClient client, Watcher watcher) {
    this(client, watcher, PATIENCE);
  }

  FollowedCluster(ClusterClient client, Watcher watcher, FollowedRun.Patience patience) {
    this.client = client;
    this.watcher = watcher;
    this.patience = patience;
  }

  /**
   * Follows a cluster to its end, and returns how it was then.
   *
   * @throws BerthException if there is no such cluster, or its server was lost and did not come
   *     back within 90 seconds; the cluster itself goes on
   */
  public ClusterStatus follow(String clusterId) {
    return follow(clusterId, status -> false);
  }

  /** The same, but not beyond a state that is {@code enough}. */
  public ClusterStatus follow(String clusterId, Predicate<ClusterStatus> enough) {
    BerthException broken = attempt(clusterId, enough);
    long brokenSince = System.nanoTime();
    Duration pause = patience.firstPause();
    boolean told = false;
    while (broken != null) {
      if (System.nanoTime() - brokenSince > patience.giveUpAfter().toNanos()) {
        throw new BerthException(
            broken.reason(),
            broken.getMessage()
                + "; gave up on "
                + (newest.getName().isEmpty() ? clusterId : newest.getName())
                + " after "
                + patience.giveUpAfter().toSeconds()
                + " s",
            broken);
      }
      if (!told) {
        watcher.lost(broken);
        told = true;
      }
      sleep(pause);
      pause = longer(pause);
      heardSomething = false;
      client.connectNow();
      broken = attempt(clusterId, enough);
      if (heardSomething) {
        brokenSince = System.nanoTime();
        pause = patience.firstPause();
        told = false;
      }
    }
    return newest;
  }

  /** Returns null if nothing is to follow, else what broke the stream. */
  private BerthException attempt(String clusterId, Predicate<ClusterStatus> enough) {
    try {
      client.watch(clusterId, status -> take(status, enough));
    } catch (Enough e) {
      return null;
    } catch (BerthException e) {
      // A connection may also break after all was said.
      if (hasEnded()) {
        return null;
      }
      if (e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      return e;
    }
    return hasEnded()
        ? null
        : new BerthException(
            Reason.UNAVAILABLE, "the server ended the stream before the cluster did");
  }

  private void take(ClusterStatus status, Predicate<ClusterStatus> enough) {
    heardSomething = true;
    newest = status;
    watcher.changed(status);
    if (enough.test(status)) {
      throw new Enough();
    }
  }

  private boolean hasEnded() {
    return newest.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED;
  }

  private Duration longer(Duration pause) {
    Duration twice = pause.multipliedBy(2);
    return twice.compareTo(patience.longestPause()) < 0 ? twice : patience.longestPause();
  }

  private static void sleep(Duration pause) {
    try {
      TimeUnit.NANOSECONDS.sleep(pause.toNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while following a cluster", e);
    }
  }
}
