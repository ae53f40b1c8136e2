package berth.client.call;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeServer;
import berth.fake.SampleStatus;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class FollowedClusterTest implements FollowedCluster.Watcher {
  private static final String ID = "cluster-5f2a";
  private static final FollowedRun.Patience HASTY =
      new FollowedRun.Patience(Duration.ofMillis(1), Duration.ofMillis(20), Duration.ofMillis(500));

  private final FakeServer server = new FakeServer("gpu00");
  private final ClusterClient client = ClusterClient.of(server.address());
  private final SampleStatus mnist = new SampleStatus(ID, "mnist", "worker:0");
  private final List<ClusterStatus> seen = new CopyOnWriteArrayList<>();
  private final LinkedBlockingQueue<BerthException> lost = new LinkedBlockingQueue<>();

  @AfterEach
  void close() {
    client.close();
    server.close();
  }

  @Override
  public void changed(ClusterStatus status) {
    seen.add(status);
  }

  @Override
  public void lost(BerthException why) {
    lost.add(why);
  }

  @Test
  void passesEveryStateUntilTheEnd() throws Exception {
    put(mnist.waits("no room"));
    CompletableFuture<ClusterStatus> last = followed();
    server.clusters.watched.take();
    put(mnist.formed());
    put(mnist.over());

    assertThat(last.join()).isEqualTo(mnist.build());
    assertThat(seen).hasSize(3).last().isEqualTo(mnist.build());
    assertThat(lost).isEmpty();
  }

  @Test
  void comesBackToAServerThatWasRestarted() throws Exception {
    put(mnist.waits("no room"));
    CompletableFuture<ClusterStatus> last = followed();
    for (int i = 0; i < 2; i++) {
      server.clusters.watched.take();
      server.stop();
      assertThat(lost.take().reason()).isEqualTo(Reason.UNAVAILABLE);
      put(mnist.note("meanwhile " + i));
      server.start();
    }
    server.clusters.watched.take();
    put(mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over());

    assertThat(last.join().getNotesCount()).isEqualTo(2);
    assertThat(lost).isEmpty();
  }

  @Test
  void givesUpOnAServerThatDoesNotComeBack() throws Exception {
    put(mnist.waits("no room"));
    CompletableFuture<ClusterStatus> last =
        CompletableFuture.supplyAsync(() -> new FollowedCluster(client, this, HASTY).follow(ID));
    server.clusters.watched.take();
    server.stop();

    assertThatThrownBy(last::join)
        .cause()
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
        .hasMessageEndingWith("; gave up on mnist after 0 s");
    assertThat(lost).hasSize(1);
  }

  @Test
  void aClusterThatIsGoneIsNotWaitedFor() {
    assertThatThrownBy(() -> new FollowedCluster(client, this).follow("cluster-x"))
        .hasMessage("there is no cluster cluster-x");
    assertThat(lost).isEmpty();
  }

  @Test
  void followsNoFurtherThanIsEnough() {
    put(mnist.waits("no room"));
    ClusterStatus last =
        new FollowedCluster(client, this).follow(ID, status -> status.getTasksCount() > 0);

    assertThat(last).isEqualTo(mnist.build());
    assertThat(seen).hasSize(1);
  }

  private CompletableFuture<ClusterStatus> followed() {
    return CompletableFuture.supplyAsync(() -> new FollowedCluster(client, this).follow(ID));
  }

  private void put(SampleStatus status) {
    server.clusters.put(status.build());
  }
}
