package berth.cli;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.RegistryClient;
import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.fake.FakeServer;
import berth.fake.SampleStatus;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import berth.v1.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class FoundClusterTest {
  private static final Address NOWHERE = new Address("127.0.0.1", 1);

  private final FakeRegistry registry = new FakeRegistry();
  private final FakeServer gpu01 = new FakeServer("gpu01");
  private final FakeServer gpu02 = new FakeServer("gpu02");
  private final FakeRuns old = new FakeRuns();
  private final Servers servers = Servers.of(RegistryClient.of(List.of(registry.address())));

  @BeforeEach
  void register() {
    register(gpu01.address(), gpu02.address(), old.address());
  }

  @AfterEach
  void close() {
    servers.close();
    old.close();
    gpu02.close();
    gpu01.close();
    registry.close();
  }

  @Test
  void findsAClusterByItsNameItsIdOrTheBeginningOfThat() {
    gpu01.clusters.put(running("cluster-aa11", "mnist"));
    gpu02.clusters.put(running("cluster-bb22", "cifar"));

    assertThat(find("cifar")).isEqualTo("cluster-bb22 on gpu02");
    assertThat(find("cluster-bb22")).isEqualTo("cluster-bb22 on gpu02");
    assertThat(find("cluster-a")).isEqualTo("cluster-aa11 on gpu01");
  }

  @Test
  void ofSeveralWithANameTheOneThatHasNotEndedIsMeantElseTheNewest() {
    gpu01.clusters.put(ended("cluster-1", "mnist", 10));
    gpu02.clusters.put(ended("cluster-2", "mnist", 30));
    gpu01.clusters.put(ended("cluster-3", "mnist", 20));
    assertThat(find("mnist")).isEqualTo("cluster-2 on gpu02");

    gpu01.clusters.put(running("cluster-4", "mnist"));
    assertThat(find("mnist")).isEqualTo("cluster-4 on gpu01");
  }

  @Test
  void severalThatHaveNotEndedAreListed() {
    gpu01.clusters.put(running("cluster-1", "mnist"));
    gpu02.clusters.put(running("cluster-2", "mnist"));
    gpu02.clusters.put(ended("cluster-3", "mnist", 0));

    assertThatThrownBy(() -> find("mnist"))
        .hasMessage(
            "several clusters are called 'mnist': use one of cluster-1 (mnist on gpu01), cluster-2"
                + " (mnist on gpu02)");
    assertThatThrownBy(() -> find("clu"))
        .hasMessage(
            "'clu' matches several clusters: cluster-1 (mnist on gpu01), cluster-2"
                + " (mnist on gpu02), cluster-3 (mnist on gpu02)");
    assertThat(find("cluster-3")).isEqualTo("cluster-3 on gpu02");
  }

  @Test
  void aNameThatNobodyHasIsOneSentence() {
    assertThatThrownBy(() -> find("x"))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.NOT_FOUND))
        .hasMessage("no cluster 'x' on any of the 3 servers; 'berth clusters' lists them");
    assertThatThrownBy(() -> find(""))
        .hasMessage("no cluster '' on any of the 3 servers; 'berth clusters' lists them");
    register(gpu01.address(), NOWHERE);
    assertThatThrownBy(() -> find("x"))
        .hasMessage(
            "no cluster 'x' on those servers that answer, 1 of 2; 'berth clusters' lists them; no"
                + " answer from s1: no berthd at 127.0.0.1:1: Connection refused");
  }

  @Test
  void oneServerThatWasGivenSpeaksForItself() {
    assertThatThrownBy(() -> find(Servers.given(List.of(gpu01.address())), "x"))
        .hasMessage("no cluster 'x' on " + gpu01.address() + "; 'berth clusters' lists them");
    assertThatThrownBy(() -> find(Servers.given(List.of(NOWHERE)), "x"))
        .hasMessage("no berthd at 127.0.0.1:1: Connection refused");
    assertThatThrownBy(() -> find(Servers.given(List.of(old.address())), "x"))
        .hasMessage(
            "berthd at "
                + old.address()
                + " does not know this call; is it older than this"
                + " client?");
  }

  @Test
  void doesNotGuessWhileAServerIsSilent() {
    register(gpu01.address(), NOWHERE);
    gpu01.clusters.put(running("cluster-aa11", "mnist"));
    gpu01.clusters.put(ended("cluster-bb22", "cifar", 0));

    assertThat(find("mnist")).isEqualTo("cluster-aa11 on gpu01");
    assertThat(find("cluster-bb22")).isEqualTo("cluster-bb22 on gpu01");
    assertThatThrownBy(() -> find("cifar"))
        .hasMessageStartingWith(
            "all known clusters called 'cifar' have ended, the last of them is cluster-bb22, but"
                + " there may be another: use its ID; no answer from s1: ");
    assertThatThrownBy(() -> find("cluster-a"))
        .hasMessageStartingWith(
            "'cluster-a' may also match another cluster than cluster-aa11: use the whole ID; no"
                + " answer from s1: ");
  }

  @Test
  void waitsUntilItsTasksAreKnown() throws Exception {
    SampleStatus begun = new SampleStatus("cluster-1", "mnist", "worker:0").waits("no room");
    gpu01.clusters.put(new SampleStatus("cluster-1", "mnist").build());
    LinkedBlockingQueue<String> notes = new LinkedBlockingQueue<>();
    try (FoundCluster found = FoundCluster.find(servers, "mnist")) {
      CompletableFuture<ClusterStatus> status =
          CompletableFuture.supplyAsync(() -> found.begun(notes::add));
      assertThat(notes.take()).isEqualTo("waiting for the supervisor of mnist to start");
      gpu01.clusters.watched.take();
      gpu01.clusters.put(begun.build());
      assertThat(status.join().getTasksCount()).isEqualTo(1);
    }
    try (FoundCluster found = FoundCluster.find(servers, "mnist")) {
      assertThat(found.begun(notes::add)).isEqualTo(found.cluster());
    }
    assertThat(notes).isEmpty();
  }

  private String find(String text) {
    return find(servers, text);
  }

  private static String find(Servers servers, String text) {
    try (FoundCluster found = FoundCluster.find(servers, text)) {
      // Over the connection that was found with it.
      ClusterStatus cluster = found.client().get(found.id(), ServerOption.TIMEOUT);
      return cluster.getClusterId() + " on " + cluster.getServer();
    }
  }

  private void register(Address... addresses) {
    List<Server> registered = new ArrayList<>();
    for (Address address : addresses) {
      registered.add(FakeRegistry.server("s" + registered.size(), address, 1, 1));
    }
    registry.servers = registered;
  }

  private static ClusterStatus running(String id, String name) {
    return new SampleStatus(id, name, "worker:0").formed().runs("worker:0").build();
  }

  private static ClusterStatus ended(String id, String name, int seconds) {
    return new SampleStatus(id, name, "worker:0")
        .decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0)
        .over()
        .builder()
        .setSubmittedAt(Messages.timestamp(SampleStatus.SUBMITTED.plusSeconds(seconds)))
        .build();
  }
}
