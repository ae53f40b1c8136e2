package berth.registry.directory;

import static berth.registry.directory.SampleServers.info;
import static berth.registry.directory.SampleServers.listed;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;

import berth.registry.directory.Roster.Position;
import berth.rpc.Vitals;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What watchers learn when a roster is filled again after it missed something. */
class RosterReloadTest {
  private final Roster roster = new Roster("epoch", new Vitals());

  @AfterEach
  void close() {
    roster.close();
  }

  @Test
  void whoFollowedTheRosterIsToldTheDifference() {
    roster.put(server("stays", 2), 1);
    roster.put(server("changes", 2), 2);
    roster.put(server("goes", 2), 3);
    Mirror mirror = new Mirror(roster);
    mirror.read();

    roster.catchUp(List.of(server("stays", 2), server("changes", 1), server("comes", 2)), 10);

    assertThat(mirror.read().values())
        .containsExactly(server("changes", 1), server("comes", 2), server("stays", 2));
    assertThat(mirror.resets()).isEqualTo(1);
    assertThat(roster.find("stays").get().revision()).isEqualTo(1);
    assertThat(mirror.revision()).isEqualTo("epoch:10");
  }

  @ParameterizedTest
  @CsvSource({"3, false", "4, true", "9, true", "10, false", "11, false"})
  void whoComesWithARevisionThatWasMissedBeginsAnew(long revision, boolean reset) {
    roster.put(server("gpu01", 2), 3);
    roster.catchUp(List.of(server("gpu02", 2)), 10);
    roster.put(server("gpu03", 2), 12);

    ServerWatch watch =
        new ServerWatch(roster, ServerFilter.getDefaultInstance(), "epoch:" + revision);

    assertThat(watch.next().getReset()).isEqualTo(reset);
  }

  @Test
  void aWatchThatWasAheadOfWhatWasMissedBeginsAnew() {
    roster.put(server("gpu01", 2), 3);
    ServerWatch ahead = new ServerWatch(roster, ServerFilter.getDefaultInstance(), "epoch:5");
    assertThat(ahead.next()).isNull();

    roster.catchUp(List.of(server("gpu02", 2)), 10);

    assertThat(ahead.next().getReset()).isTrue();
  }

  @Test
  void inAnotherEpochEverybodyBeginsAnew() {
    roster.put(server("gpu01", 2), 300);
    Mirror mirror = new Mirror(roster);
    mirror.read();

    roster.beginAt(new Position("other", 7), List.of(server("gpu02", 2)));

    assertThat(mirror.read().values()).containsExactly(server("gpu02", 2));
    assertThat(mirror.resets()).isEqualTo(2);
    assertThat(mirror.revision()).isEqualTo("other:7");
  }

  private static Server server(String name, int free) {
    return listed(info(name, name + ":1", 2, "model", 1), status(2, free));
  }
}
