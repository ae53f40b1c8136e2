package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.FakeRegistry;
import berth.rpc.Address;
import berth.v1.Server;
import berth.v1.WatchServersResponse;
import java.util.List;
import org.junit.jupiter.api.Test;

class WatchedServersTest {
  private final WatchedServers watched = new WatchedServers();

  @Test
  void tellsNothingBeforeAllIsSaid() {
    assertThat(watched.take(part(server("a", 1)).setReset(true).build())).isEmpty();
    assertThat(watched.revision()).isEmpty();

    WatchServersResponse news = watched.take(whole("r1", server("b", 1))).orElseThrow();

    assertThat(names(news)).containsExactly("a", "b");
    assertThat(watched.revision()).isEqualTo("r1");
  }

  @Test
  void tellsThatThereIsNobodyOnce() {
    assertThat(watched.take(whole("r1").toBuilder().setReset(true).build())).isPresent();
    assertThat(watched.take(whole("r2").toBuilder().setReset(true).build())).isEmpty();
    assertThat(watched.revision()).isEqualTo("r2");
  }

  @Test
  void aStreamThatBreaksInTheMiddleOfAListChangesNothing() {
    watched.take(whole("r1", server("a", 1), server("b", 1)));
    watched.take(part(server("c", 1)).setReset(true).build());
    watched.beginStream();

    WatchServersResponse news =
        watched.take(whole("r2", server("b", 2)).toBuilder().setReset(true).build()).orElseThrow();

    assertThat(news.getServersList()).containsExactly(server("b", 2));
    assertThat(news.getRemovedList()).containsExactly("a");
  }

  @Test
  void nobodyGoesWhenAStreamBreaksInTheMiddleOfAListAndTheNextTellsOnlyChanges() {
    watched.take(whole("r1", server("a", 1), server("b", 1)));
    watched.take(part(server("a", 1)).setReset(true).build());
    watched.beginStream();

    WatchServersResponse news = watched.take(whole("r2", server("b", 2))).orElseThrow();

    assertThat(news.getServersList()).containsExactly(server("b", 2));
    assertThat(news.getRemovedList()).isEmpty();
  }

  @Test
  void changesOfABrokenStreamAreToldWithTheNext() {
    watched.take(whole("r1", server("a", 1)));
    assertThat(watched.take(part(server("b", 1)).build())).isEmpty();
    watched.beginStream();

    assertThat(names(watched.take(whole("r2", server("b", 1))).orElseThrow())).containsExactly("b");
  }

  @Test
  void tellsOnlyWhatIsDifferent() {
    watched.take(whole("r1", server("a", 1), server("b", 1)));

    WatchServersResponse news =
        watched.take(whole("r2", server("a", 1), server("b", 2))).orElseThrow();

    assertThat(news.getServersList()).containsExactly(server("b", 2));
    assertThat(watched.take(whole("r3", server("a", 1)))).isEmpty();
  }

  @Test
  void removesOnlyWhatWasTold() {
    watched.take(whole("r1", server("a", 1)));

    assertThat(watched.take(gone("never-told"))).isEmpty();
    assertThat(watched.take(gone("a")).orElseThrow().getRemovedList()).containsExactly("a");
    assertThat(watched.take(gone("a"))).isEmpty();
  }

  private static Server server(String name, int free) {
    return FakeRegistry.server(name, new Address("127.0.0.1", 1), free, 2);
  }

  private static WatchServersResponse.Builder part(Server... servers) {
    return WatchServersResponse.newBuilder().addAllServers(List.of(servers));
  }

  private static WatchServersResponse whole(String revision, Server... servers) {
    return part(servers).setComplete(true).setRevision(revision).build();
  }

  private static WatchServersResponse gone(String name) {
    return WatchServersResponse.newBuilder().addRemoved(name).setComplete(true).build();
  }

  private static List<String> names(WatchServersResponse news) {
    return news.getServersList().stream().map(server -> server.getInfo().getName()).toList();
  }
}
