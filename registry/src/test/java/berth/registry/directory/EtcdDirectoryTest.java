package berth.registry.directory;

import static berth.registry.directory.SampleServers.heartbeat;
import static berth.registry.directory.SampleServers.registration;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.etcd.EtcdCluster;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.options.GetOption;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("etcd")
class EtcdDirectoryTest extends DirectoryContract {
  private static EtcdCluster cluster;

  private final String prefix = "/test/" + UUID.randomUUID();
  private final Metrics metrics = new Metrics();
  private EtcdDirectory directory;

  @BeforeAll
  static void startEtcd() {
    cluster = EtcdCluster.start(1);
  }

  @AfterAll
  static void stopEtcd() {
    cluster.close();
  }

  @BeforeEach
  void open() {
    directory =
        new EtcdDirectory(
            TERMS,
            cluster.endpoints(),
            prefix,
            Duration.ZERO,
            new DirectoryMetrics(metrics),
            new Vitals());
    await()
        .ignoreExceptionsInstanceOf(BerthException.class)
        .until(() -> directory.roster() != null);
  }

  @AfterEach
  void close() {
    directory.close();
  }

  @Override
  Metrics metrics() {
    return metrics;
  }

  @Override
  Directory directory() {
    return directory;
  }

  @Test
  void aLeaseIsRoundedUpToWholeSeconds() {
    LeaseTerms terms = new LeaseTerms(Duration.ofMillis(2100), 50);
    try (EtcdDirectory other =
        new EtcdDirectory(
            terms,
            cluster.endpoints(),
            prefix,
            Duration.ZERO,
            new DirectoryMetrics(new Metrics()),
            new Vitals())) {
      assertThat(other.register(registration("gpu01", "h1:1", "a", 1)).getLease().getSeconds())
          .isEqualTo(3);
    }
  }

  @Test
  void registriesWithOtherPrefixesKnowNothingOfEachOther() {
    try (EtcdDirectory other =
        new EtcdDirectory(
            TERMS,
            cluster.endpoints(),
            prefix + "-and-more",
            Duration.ZERO,
            new DirectoryMetrics(new Metrics()),
            new Vitals())) {
      other.register(registration("gpu01", "h1:18812", "a", 1));
      directory.register(registration("gpu01", "h1:18812", "b", 1));

      await().until(() -> directory.roster().find("gpu01").isPresent());
      await().until(() -> other.roster().find("gpu01").isPresent());
      assertThat(directory.roster().find("gpu01").get().server().getInstance()).isEqualTo("b");
      assertThat(other.roster().find("gpu01").get().server().getInstance()).isEqualTo("a");
    }
  }

  @Test
  void aHeartbeatWithALeaseThatWasReplacedKeepsTheServer() {
    String first = directory.register(registration("gpu01", "h1:18812", "a", 1)).getLeaseId();
    String second = directory.register(registration("gpu01", "h1:18812", "a", 1)).getLeaseId();
    assertThat(second).isNotEqualTo(first);

    assertThat(directory.heartbeat(heartbeat("gpu01", "a", first)).getKnown()).isTrue();
    assertThat(directory.heartbeat(heartbeat("gpu01", "a", "none of etcd's")).getKnown()).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"https://127.0.0.1:2379", "127.0.0.1:x", "", "http://a b:1"})
  void refusesWhatIsNoEndpoint(String endpoint) {
    assertThatThrownBy(
            () ->
                new EtcdDirectory(
                    TERMS,
                    List.of(endpoint),
                    "/berth/",
                    Duration.ZERO,
                    new DirectoryMetrics(new Metrics()),
                    new Vitals()))
        .isInstanceOf(BerthException.class)
        .extracting(e -> ((BerthException) e).reason())
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void oneOfSeveralRegistriesHasEtcdForgetOldRevisions() throws Exception {
    Vitals vitals = new Vitals();
    EtcdKeys keys = new EtcdKeys(prefix);
    directory.register(registration("gpu01", "h1:18812", "a", 1));
    try (EtcdMembers members = new EtcdMembers(cluster.endpoints());
        EtcdCompaction first = new EtcdCompaction(members, keys, Duration.ofMillis(200), vitals);
        EtcdCompaction second = new EtcdCompaction(members, keys, Duration.ofMillis(300), vitals)) {
      GetOption old = GetOption.builder().withRevision(1).build();
      await()
          .until(
              () -> {
                try {
                  members.call(client -> client.getKVClient().get(keys.epoch(), old));
                  return false;
                } catch (EtcdException e) {
                  return e.getMessage().contains("compacted");
                }
              });
      assertThat(first).isNotSameAs(second);
    }
    // Nobody notices anything of it.
    directory.register(registration("gpu02", "h2:18812", "b", 1));
    await().until(() -> directory.roster().size() == 2);
    assertThat(vitals.problem()).isEmpty();
  }
}
