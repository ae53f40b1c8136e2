package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An engine that takes calls and does not answer them. */
class HangingEngineTest {
  private static final EngineClient.Patience PATIENCE =
      new EngineClient.Patience(
          Duration.ofMillis(400),
          Duration.ofMillis(400),
          Duration.ofMillis(800),
          Duration.ofMillis(100));
  // Far above what any call may take, far below "for ever".
  private static final Duration SOON = Duration.ofSeconds(60);

  @TempDir private Path folder;
  private FakeEngine engine;
  private DockerRuntime runtime;

  @BeforeEach
  void start() throws IOException {
    engine = new FakeEngine(folder);
    runtime =
        new DockerRuntime(
            new DockerRuntime.Settings(
                engine.host(), "gpu01", folder.resolve("state"), true, Duration.ofHours(1)),
            PATIENCE);
    // On a busy machine the first answers may come too late.
    await().atMost(SOON).until(() -> runtime.problem().isEmpty());
    engine.hang();
  }

  @AfterEach
  void stop() {
    runtime.close();
    engine.close();
  }

  @Test
  void isToldAsAProblemAfterAWhile() {
    assertTimeoutPreemptively(
        SOON,
        () -> assertThat(runtime.problem().orElse("")).startsWith("no Docker engine answers at"));
  }

  @Test
  void isNotAskedForWhatIsKnown() {
    assertThat(runtime.info().engine()).isEqualTo("Docker 1.0 at " + engine.host());
    assertThat(engine.unanswered()).isEmpty();
  }

  @Test
  void keepsNobodyWaitingForEver() {
    assertTimeoutPreemptively(SOON, () -> assertThat(runtime.peakMemory("run-1")).isEmpty());
    assertTimeoutPreemptively(
        SOON, () -> assertThatThrownBy(() -> runtime.signal("run-1", "TERM")).isNotNull());
    assertTimeoutPreemptively(
        SOON,
        () ->
            assertThatThrownBy(() -> runtime.remove("run-1"))
                .isInstanceOf(BerthException.class)
                .hasMessageStartingWith("no Docker engine answers at"));
    assertTimeoutPreemptively(
        SOON, () -> assertThatThrownBy(() -> runtime.reap(id -> true)).isNotNull());
    assertThat(engine.unanswered()).hasSizeGreaterThanOrEqualTo(4);
  }

  @Test
  void neitherMakesNorStartsAnythingAndSaysSo() {
    for (ThrowingCallable call :
        List.<ThrowingCallable>of(
            () -> runtime.create(Launches.of(folder), new Launches.NoProgress()),
            () -> runtime.start(Launches.of(folder)))) {
      assertTimeoutPreemptively(
          SOON,
          () ->
              assertThatThrownBy(call)
                  .hasMessageStartingWith("no Docker engine answers at")
                  .isInstanceOfSatisfying(
                      BerthException.class,
                      e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE)));
    }
  }

  /** Each would keep a thread and a connection until the engine is restarted. */
  @Test
  void isNotAskedAgainToTellOfTheEndWhileItHasNotAnswered() throws Exception {
    Thread waiting =
        new Thread(
            () -> {
              try {
                runtime.await("run-1");
              } catch (InterruptedException e) {
                // The test is over.
              }
            });
    waiting.start();
    try {
      await().atMost(SOON).until(() -> asked("/containers/berth-run-1/json") >= 4);
      assertThat(asked("/containers/berth-run-1/wait")).isEqualTo(1);
    } finally {
      waiting.interrupt();
      waiting.join();
    }
  }

  private long asked(String what) {
    return engine.unanswered().stream().filter(line -> line.contains(what)).count();
  }
}
