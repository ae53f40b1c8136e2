package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRegistry;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Statuses;
import berth.v1.FindGpusRequest;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersRequest;
import berth.v1.WatchServersResponse;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class RegistryClientTest {
  private static final Address NOBODY = new Address("127.0.0.1", 1);
  private static final ServerFilter ALL = ServerFilter.getDefaultInstance();

  private final FakeRegistry registry = new FakeRegistry();
  private final Server gpu01 = FakeRegistry.server("gpu01", NOBODY, 1, 2);
  private final Server gpu02 = FakeRegistry.server("gpu02", NOBODY, 2, 2);
  private final Server gpu02Full = FakeRegistry.server("gpu02", NOBODY, 0, 2);
  private final BlockingQueue<WatchServersResponse> told = new LinkedBlockingQueue<>();
  private final BlockingQueue<BerthException> lost = new LinkedBlockingQueue<>();
  private final BlockingQueue<StreamObserver<WatchServersResponse>> streams =
      new LinkedBlockingQueue<>();
  private RegistryClient client = RegistryClient.of(List.of(registry.address()));

  @AfterEach
  void close() {
    client.close();
    registry.close();
  }

  @Test
  void listsTheServersOfAllPages() {
    registry.servers = List.of(gpu01, gpu02, FakeRegistry.server("gpu03", NOBODY, 0, 0));
    registry.pageSize = 2;

    assertThat(client.listServers(ALL)).isEqualTo(registry.servers);
  }

  @Test
  void leavesARegistryThatIsNotThereForTheNext() {
    registry.servers = List.of(gpu01);
    try (RegistryClient both = RegistryClient.of(List.of(NOBODY, registry.address()))) {
      assertThat(both.listServers(ALL)).containsExactly(gpu01);
    }
  }

  @Test
  void saysWhichRegistriesDoNotAnswerAndWhatToDo() {
    try (RegistryClient nobody = RegistryClient.of(List.of(NOBODY, NOBODY))) {
      assertThatThrownBy(() -> nobody.findGpus(FindGpusRequest.getDefaultInstance()))
          .hasMessageContaining("none of the registries 127.0.0.1:1, 127.0.0.1:1 serves")
          .hasMessageContaining("no registry at 127.0.0.1:1: Connection refused")
          .hasMessageContaining("start berth-registry there");
    }
  }

  @Test
  void goesOnWithTheRevisionAtTheNextRegistry() throws Exception {
    try (FakeRegistry other = new FakeRegistry()) {
      client = RegistryClient.of(List.of(registry.address(), other.address()));
      registry.onWatch = (request, stream) -> answer(stream, reset(gpu01, gpu02), "r1");
      other.onWatch =
          (request, stream) ->
              answer(stream, WatchServersResponse.newBuilder().addServers(gpu02Full), "r2");
      watch();
      assertThat(next().getServersList()).containsExactly(gpu01, gpu02);

      registry.stop(streams.take());

      assertThat(next().getServersList()).containsExactly(gpu02Full);
      assertThat(other.watched.take().getAfterRevision()).isEqualTo("r1");
    }
  }

  @Test
  void tellsOnlyWhatChangedWhenARestartedRegistryTellsAll() throws Exception {
    registry.onWatch =
        (request, stream) ->
            answer(
                stream,
                request.getAfterRevision().isEmpty() ? reset(gpu01, gpu02) : reset(gpu02Full),
                "r1");
    watch();
    assertThat(next().getServersCount()).isEqualTo(2);

    registry.stop(streams.take());
    registry.start();

    WatchServersResponse news = next();
    assertThat(news.getServersList()).containsExactly(gpu02Full);
    assertThat(news.getRemovedList()).containsExactly("gpu01");
    assertThat(news.getReset()).isFalse();
    assertThat(news.getComplete()).isTrue();
  }

  @Test
  void beginsAnewWhereARevisionIsNotKnown() throws Exception {
    registry.onWatch =
        (request, stream) -> {
          if (request.getAfterRevision().isEmpty()) {
            answer(stream, reset(gpu01), "r1");
          } else {
            stream.onError(
                Statuses.toException(new BerthException(Reason.INVALID, "no revision of ours")));
          }
        };
    watch();
    next();

    registry.stop(streams.take());
    registry.start();

    streams.take();
    assertThat(told).isEmpty();
    assertThat(registry.watched)
        .extracting(WatchServersRequest::getAfterRevision)
        .startsWith("", "r1");
  }

  @Test
  void saysThatTheRegistryIsLostAndGoesOnWhenItIsBack() throws Exception {
    registry.onWatch =
        (request, stream) ->
            answer(stream, reset(request.getAfterRevision().isEmpty() ? gpu01 : gpu02), "r1");
    watch();
    next();

    registry.stop(streams.take());
    assertThat(lost.poll(20, TimeUnit.SECONDS)).hasMessageContaining("Connection refused");
    registry.start();

    assertThat(next().getServersList()).containsExactly(gpu02);
    assertThat(lost).isEmpty();
  }

  @Test
  void aWatchThatNeverBeganFails() {
    try (RegistryClient nobody = RegistryClient.of(List.of(NOBODY))) {
      assertThatThrownBy(() -> nobody.watchServers(ALL, told::add))
          .hasMessageContaining("no registry at 127.0.0.1:1: Connection refused");
    }
  }

  private CompletableFuture<Void> watch() {
    return CompletableFuture.runAsync(
        () ->
            client.watchServers(
                ALL,
                new RegistryClient.Watcher() {
                  @Override
                  public void changed(WatchServersResponse news) {
                    told.add(news);
                  }

                  @Override
                  public void lost(BerthException why) {
                    lost.add(why);
                  }
                }));
  }

  private WatchServersResponse next() throws InterruptedException {
    WatchServersResponse news = told.poll(20, TimeUnit.SECONDS);
    assertThat(news).isNotNull();
    return news;
  }

  private void answer(
      StreamObserver<WatchServersResponse> stream,
      WatchServersResponse.Builder response,
      String revision) {
    stream.onNext(response.setComplete(true).setRevision(revision).build());
    streams.add(stream);
  }

  private static WatchServersResponse.Builder reset(Server... servers) {
    return WatchServersResponse.newBuilder().setReset(true).addAllServers(List.of(servers));
  }
}
