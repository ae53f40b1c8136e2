package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;

import berth.server.run.RunEngine.Exit;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ContainerExitTest {
  private static final Duration SOON = Duration.ofSeconds(60);
  private static final EngineClient.Patience PATIENCE =
      new EngineClient.Patience(SOON, SOON, SOON, Duration.ofMillis(10));
  private static final Optional<Instant> END = Optional.of(Instant.parse("2026-01-02T03:04:05Z"));
  private static final String WAIT = "POST /containers/berth-run-1/wait";
  private static final String INSPECT = "GET /containers/berth-run-1/json";
  private static final String EVENTS = "GET /events";
  private static final String KILL_EVENT = "{\"Action\":\"kill\",\"id\":\"c1\"}\n";
  private static final String OOM_EVENT = "{\"Action\":\"oom\",\"id\":\"c1\"}\n";
  private static final String STOPPED =
      "the container was stopped by the Docker engine, not by Berth";

  @TempDir private Path folder;
  private FakeEngine engine;
  private EngineClient client;
  private Path machine;
  private OutOfMemoryKills kills;
  private ContainerExit exits;

  @BeforeEach
  void open() throws IOException {
    engine = new FakeEngine(folder);
    client = new EngineClient(engine.host(), PATIENCE);
    machine = Files.writeString(folder.resolve("vmstat"), "nr_free_pages 5\noom_kill 7\n");
    kills = new OutOfMemoryKills(machine);
    exits = new ContainerExit(client, kills);
    engine.answer(EVENTS, 200, "");
  }

  @AfterEach
  void close() throws IOException {
    client.close();
    engine.close();
  }

  @Test
  void theEventTellsOfTheLackOfMemoryThatTheStateDoesNot() throws Exception {
    ended(137, false);
    engine.answer(EVENTS, 200, OOM_EVENT);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, true, END, ""));
  }

  /** An engine that hears of the end first may never hear of the lack of memory. */
  @Test
  void theKernelTellsOfTheLackOfMemoryThatTheEngineNeverHeardOf() throws Exception {
    kills.starts("run-1");
    Files.writeString(machine, "oom_kill 8\n");
    ended(137, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, true, END, ""));
    ended(143, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(143, false, END, ""));
    ended(137, false);
    engine.answer(EVENTS, 200, KILL_EVENT);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, false, END, STOPPED));
  }

  @Test
  void aKillElsewhereBeforeTheContainerWasSeenWellIsNotItsOwn() throws Exception {
    Path group = Files.createDirectory(folder.resolve("group"));
    Path count = Files.writeString(group.resolve("memory.events"), "oom 0\noom_kill 0\n");
    kills.starts("run-1");
    Files.writeString(machine, "oom_kill 8\n");
    kills.look("run-1", new ContainerGroup(group, true));
    ended(137, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, false, END, ""));

    Files.writeString(machine, "oom_kill 9\n");
    Files.writeString(count, "oom 1\noom_kill 1\n");
    kills.look("run-1", new ContainerGroup(group, true));
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, true, END, ""));
  }

  @Test
  void aKernelThatDoesNotCountTellsNothing() throws Exception {
    Files.writeString(machine, "nr_free_pages 5\n");
    kills.starts("run-1");
    Files.writeString(machine, "oom_kill 8\n");
    ended(137, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, false, END, ""));
  }

  /** As it does when the state tells of both. */
  @Test
  void lackOfMemoryCountsMoreThanASignal() throws Exception {
    ended(137, false);
    engine.answer(EVENTS, 200, KILL_EVENT + OOM_EVENT);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, true, END, ""));
  }

  @Test
  void aSignalOfTheEngineThatBerthDidNotAskForIsALoss() throws Exception {
    for (int code : new int[] {137, 143}) {
      ended(code, false);
      engine.answer(EVENTS, 200, KILL_EVENT);
      assertThat(exits.await("run-1")).isEqualTo(new Exit(code, false, END, STOPPED));
    }
  }

  @Test
  void aProgramThatKillsItselfHasEndedByItself() throws Exception {
    ended(137, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, false, END, ""));
  }

  @Test
  void eventsAreNotAskedForIfTheEndExplainsItself() throws Exception {
    ended(137, true);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, true, END, ""));
    ended(3, false);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(3, false, END, ""));
    ended(137, false);
    exits.signalled("run-1");
    assertThat(exits.await("run-1")).isEqualTo(new Exit(137, false, END, ""));

    assertThat(engine.timesAnswered(EVENTS)).isZero();
  }

  /** The engine has noted that a process of it was killed; its program may have coped. */
  @Test
  void aChildThatRanOutOfMemoryIsToldOfUnlessAllWentWell() throws Exception {
    ended(1, true);
    assertThat(exits.await("run-1")).isEqualTo(new Exit(1, true, END, ""));
    ended(0, true);
    exits.startedHere("run-1");
    assertThat(exits.await("run-1")).isEqualTo(new Exit(0, false, Optional.empty(), ""));
  }

  @Test
  void aContainerThatIsGoneWasRemoved() throws Exception {
    engine.answer(WAIT, 404, "{\"message\":\"no such container\"}");
    assertThat(exits.await("run-1").lost()).isEqualTo(ContainerExit.REMOVED);
  }

  private void ended(int code, boolean oomKilled) {
    engine.answer(WAIT, 200, "{\"StatusCode\":" + code + "}");
    engine.answer(
        INSPECT,
        200,
        "{\"Id\":\"c1\",\"State\":{\"Running\":false,\"ExitCode\":"
            + code
            + ",\"OOMKilled\":"
            + oomKilled
            + ",\"FinishedAt\":\"2026-01-02T03:04:05Z\"}}");
  }
}
