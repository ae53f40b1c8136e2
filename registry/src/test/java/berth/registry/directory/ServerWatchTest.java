package berth.registry.directory;

import static berth.registry.directory.SampleServers.GIB;
import static berth.registry.directory.SampleServers.info;
import static berth.registry.directory.SampleServers.listed;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Vitals;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ServerWatchTest {
  private final Roster roster = new Roster("test", new Vitals());
  private long revision;

  @AfterEach
  void close() {
    roster.close();
  }

  @Test
  void tellsTheWholeFirstHoweverLargeThenWhatChanges() {
    for (int i = 0; i < 1000; i++) {
      put("gpu" + i, 4, 4);
    }
    ServerWatch watch = watch("");

    Seen seen = new Seen();
    seen.all(watch);

    assertThat(seen.names).hasSize(1000);
    assertThat(seen.messages).isGreaterThan(1);
    assertThat(seen.resets).isEqualTo(1);
    put("gpu7", 4, 1);
    roster.remove("gpu8", ++revision);
    WatchServersResponse change = watch.next();
    assertThat(change.getServersList())
        .extracting(s -> s.getInfo().getName())
        .containsExactly("gpu7");
    assertThat(change.getRemovedList()).containsExactly("gpu8");
    assertThat(change.getComplete()).isTrue();
    assertThat(watch.next()).isNull();
  }

  @Test
  void whoReadsSlowlyGetsTheNewestStateOfEachServer() {
    ServerWatch watch = watch("");
    new Seen().all(watch);

    for (int i = 0; i < 100; i++) {
      put("gpu01", 4, i % 4);
      put("gpu02", 4, i % 4);
    }

    WatchServersResponse all = watch.next();
    assertThat(all.getServersList()).hasSize(2);
    assertThat(all.getServersList()).allMatch(s -> s.getStatus().equals(status(4, 3)));
    assertThat(watch.next()).isNull();
  }

  @Test
  void goesOnAfterARevision() {
    put("gpu01", 4, 4);
    put("gpu02", 4, 4);
    Seen seen = new Seen();
    seen.all(watch(""));

    put("gpu03", 4, 4);
    roster.remove("gpu01", ++revision);

    ServerWatch later = watch(seen.revision);
    WatchServersResponse missed = later.next();
    assertThat(missed.getReset()).isFalse();
    assertThat(missed.getServersList())
        .extracting(s -> s.getInfo().getName())
        .containsExactly("gpu03");
    assertThat(missed.getRemovedList()).containsExactly("gpu01");
  }

  @Test
  void tellsAllAnewToWhomTheRevisionIsOfAnother() {
    put("gpu01", 4, 4);

    assertThat(watch("another:17").next().getReset()).isTrue();
    assertThatThrownBy(() -> watch("seventeen")).hasMessage("'seventeen' is no revision");
  }

  @Test
  void tellsAllAnewToWhomTooMuchHasHappened() {
    put("stays", 1, 1);
    ServerWatch sleepy = watch("");
    Seen seen = new Seen();
    seen.all(sleepy);
    put("goes", 1, 1);

    for (int i = 0; i < 10_001; i++) {
      put("gpu" + i, 1, 1);
    }
    for (int i = 0; i < 10_001; i++) {
      roster.remove("gpu" + i, ++revision);
    }
    roster.remove("goes", ++revision);

    seen.all(sleepy);
    assertThat(seen.resets).isEqualTo(2);
    assertThat(seen.names).containsExactly("stays");
    assertThat(watch(seen.revision).next()).isNull();
  }

  @Test
  void aServerThatNoLongerPassesTheFilterIsRemoved() {
    ServerFilter free = ServerFilter.newBuilder().setMinFreeGpus(2).build();
    put("gpu01", 4, 3);
    put("gpu02", 4, 0);
    ServerWatch watch = new ServerWatch(roster, free, "");
    Seen seen = new Seen();
    seen.all(watch);
    assertThat(seen.names).containsExactly("gpu01");

    put("gpu01", 4, 1);
    put("gpu02", 4, 4);

    seen.all(watch);
    assertThat(seen.names).containsExactly("gpu02");
  }

  @Test
  void serversThatNeverPassedTheFilterAreNoNews() {
    ServerFilter caffe = ServerFilter.newBuilder().setService("caffe").build();
    put("gpu01", 4, 3);
    ServerWatch watch = new ServerWatch(roster, caffe, "");
    watch.next();

    put("gpu01", 4, 2);

    assertThat(watch.next()).isNull();
  }

  @Test
  void filtersBySeveralThings() {
    roster.put(listed(info("t4", "t:1", 2, "NVIDIA T4", 16 * GIB), status(2, 1)), ++revision);
    put("a100", 4, 4);

    assertThat(passing(filter().setService("TENSORFLOW"))).containsExactly("a100", "t4");
    assertThat(passing(filter().setService("tensorflow-2.21"))).containsExactly("a100", "t4");
    assertThat(passing(filter().setService("tensorflow-1.4"))).isEmpty();
    assertThat(passing(filter().setModel("a100"))).containsExactly("a100");
    assertThat(passing(filter().setMinGpuMemoryBytes(20 * GIB))).containsExactly("a100");
    assertThat(passing(filter().setMinFreeGpus(2))).containsExactly("a100");
    assertThat(passing(filter().setModel("T4").setMinFreeGpus(2))).isEmpty();
    assertThat(passing(filter().putLabels("room", "b12"))).containsExactly("a100", "t4");
    assertThat(passing(filter().putLabels("room", "b13"))).isEmpty();
    assertThat(passing(filter().addNames("t4"))).containsExactly("t4");
  }

  private static ServerFilter.Builder filter() {
    return ServerFilter.newBuilder();
  }

  private Set<String> passing(ServerFilter.Builder filter) {
    Seen seen = new Seen();
    seen.all(new ServerWatch(roster, filter.build(), ""));
    return seen.names;
  }

  private ServerWatch watch(String after) {
    return new ServerWatch(roster, ServerFilter.getDefaultInstance(), after);
  }

  private void put(String name, int gpus, int free) {
    roster.put(
        listed(info(name, name + ":1", gpus, "NVIDIA A100", 80 * GIB), status(gpus, free)),
        ++revision);
  }

  /** What a caller makes of the messages. */
  private static final class Seen {
    private final Set<String> names = new TreeSet<>();
    private int messages;
    private int resets;
    private String revision = "";

    void all(ServerWatch watch) {
      WatchServersResponse next;
      while ((next = watch.next()) != null) {
        messages++;
        if (next.getReset()) {
          names.clear();
          resets++;
        }
        for (Server server : next.getServersList()) {
          names.add(server.getInfo().getName());
        }
        names.removeAll(next.getRemovedList());
        if (next.getComplete()) {
          revision = next.getRevision();
        }
      }
    }
  }
}
