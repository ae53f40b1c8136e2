package berth.e2e.images;

import static berth.e2e.fixture.Asked.command;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Registry;
import berth.e2e.fixture.RunServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelRunRequest;
import berth.v1.ExitReason;
import berth.v1.Pulling;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Images that the engine does not have yet. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class ImagesTest {
  @TempDir private static Path folder;
  @TempDir private static Path registryFolder;
  private static Engine engine;
  private static RunServer server;
  private static Registry registry;

  @BeforeAll
  static void start(Engine shared) throws IOException {
    engine = shared;
    registry = new Registry(engine, registryFolder);
    server =
        new RunServer(
            folder,
            "--docker",
            engine.host(),
            "--simulate-gpus",
            "2",
            "--sample-interval",
            "100ms");
  }

  @AfterEach
  void leavesNothing() throws IOException {
    registry.shut();
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
  }

  @AfterAll
  static void stop() {
    registry.close();
    server.close();
  }

  @Test
  void tellsHowFarTheFetchingIsAndDoesItOnce() throws Exception {
    Heard heard = server.run(hello("busy-once").setGpus(Asked.gpus(1)));

    Pulling half =
        heard
            .await(
                event ->
                    event.getPulling().getBytesDone() > 0
                        && event.getPulling().getBytesDone() < event.getPulling().getBytes(),
                "no progress")
            .getPulling();
    registry.awaitSaid("half busy-once");
    assertThat(half.getImage()).isEqualTo(Registry.image("busy-once"));
    assertThat(half.getLayers()).isEqualTo(2);
    assertThat(half.getPercent()).isBetween(0, 99);
    assertThat(half.getBytes()).isGreaterThan(half.getBytesDone());
    registry.open();
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("hello\n");
    List<Pulling> told = heard.all(EventCase.PULLING).stream().map(RunEvent::getPulling).toList();
    Pulling last = told.get(told.size() - 1);
    assertThat(last.getLayersDone()).isEqualTo(2);
    assertThat(last.getBytes()).isGreaterThan(4 << 20).isEqualTo(last.getBytesDone());
    assertThat(last.getPercent()).isEqualTo(100);
    assertThat(told).extracting(Pulling::getBytesDone).isSorted();
    assertThat(heard.kinds().stream().distinct())
        .containsExactly(
            EventCase.ACCEPTED,
            EventCase.RESERVED,
            EventCase.PULLING,
            EventCase.STARTED,
            EventCase.EXITED);

    Heard again = server.run(hello("busy-once"));
    assertThat(again.exited().getExitCode()).isZero();
    assertThat(again.all(EventCase.PULLING)).isEmpty();
    assertThat(registry.timesSaid("all busy-once")).isEqualTo(1);
  }

  @Test
  void anImageThatIsNowhereIsNotFound() {
    Heard heard = server.run(hello("nobody"));

    BerthException failure = heard.failed();
    assertThat(failure.reason()).isEqualTo(Reason.NOT_FOUND);
    assertThat(failure.getMessage())
        .startsWith(
            "image " + Registry.image("nobody") + " is not on this server and cannot be pulled: ")
        .doesNotContain("\n");
    assertThat(server.attach(heard.runId(), 0).exited().getReason())
        .isEqualTo(ExitReason.EXIT_REASON_IMAGE_NOT_FOUND);
  }

  @Test
  void aRunCanBeCancelledWhileItsImageIsFetched() {
    Heard heard = server.run(hello("busy-cancelled").setGpus(Asked.gpus(0)));
    registry.awaitSaid("half busy-cancelled");

    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(heard.runId()).setBy(Asked.BOB).build(),
            RunServer.TIMEOUT);

    assertThat(heard.failed().reason()).isEqualTo(Reason.CANCELLED);
    assertThat(heard.failed()).hasMessageContaining("cancelled by bob@desk");
    await().until(() -> server.held().isEmpty());
    assertThat(registry.timesSaid("all busy-cancelled")).isZero();
  }

  private static RunCodeRequest.Builder hello(String image) {
    return command("echo", "hello").setImage(Registry.image(image));
  }
}
