package berth.e2e.runs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Heard;
import berth.e2e.fixture.RunServer;
import berth.e2e.fixture.TmpfsDisk;
import berth.v1.CancelRunRequest;
import berth.v1.ExitReason;
import berth.v1.GpuRequest;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import berth.v1.WaitTime;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A disk that fills up in each state of a run: nothing is lost that was accepted. */
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class FullDiskRunsTest {
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  @TempDir private Path folder;
  private TmpfsDisk disk;
  private RunServer server;

  @BeforeEach
  void start() throws Exception {
    disk = new TmpfsDisk(Files.createDirectory(folder.resolve("state")));
    server = new RunServer(folder, "--runtime", "process", "--allow-root", "--simulate-gpus", "1");
  }

  @AfterEach
  void stop() {
    server.close();
    disk.close();
  }

  @Test
  void aRunIsRefusedAndWhoWaitsGoesOnWhenThereIsRoomAgain() throws Exception {
    Heard holder = server.run(shell("exec sleep 1000"));
    await().atMost(PATIENCE).until(() -> state(holder.runId()) == RunState.RUN_STATE_RUNNING);
    Heard waiting = server.run(shell("echo it is $NV_GPU"));
    String waitingId = waiting.runId();
    disk.fill();

    assertThatThrownBy(() -> server.run(shell("true")).exited())
        .hasStackTraceContaining("a run is refused: ")
        .hasStackTraceContaining("--least-free-disk");
    cancel(holder.runId());
    assertThat(holderEnd(holder)).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    // A restart changes nothing about it.
    server.kill();
    server.start();
    disk.empty();

    Heard again = server.attach(waitingId, 0);
    assertThat(again.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(again.outText()).isEqualTo("it is 0\n");
    assertThat(server.get(holder.runId()).getExited().getReason())
        .isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
  }

  @Test
  void aRunThatEndsIsNotStartedAgain() throws Exception {
    Path starts = folder.resolve("starts");
    Heard run = server.run(shell("echo x >>" + starts + "; exec sleep 1000"));
    await().atMost(PATIENCE).until(() -> Files.exists(starts));
    await().atMost(PATIENCE).until(() -> server.phase(run.runId()).equals("RUNNING"));
    disk.fill();

    cancel(run.runId());
    assertThat(holderEnd(run)).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    server.kill();
    server.start();
    disk.empty();

    await().atMost(PATIENCE).until(() -> server.phase(run.runId()).equals("CLEANED"));
    assertThat(state(run.runId())).isEqualTo(RunState.RUN_STATE_ENDED);
    assertThat(starts).hasContent("x");
  }

  private ExitReason holderEnd(Heard holder) {
    await().atMost(PATIENCE).until(() -> state(holder.runId()) == RunState.RUN_STATE_ENDED);
    return server.get(holder.runId()).getExited().getReason();
  }

  private RunState state(String id) {
    return server.get(id).getState();
  }

  private void cancel(String id) {
    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(id).setForce(true).build(), RunServer.TIMEOUT);
  }

  private static RunCodeRequest.Builder shell(String script) {
    return RunCodeRequest.newBuilder()
        .addAllCommand(List.of("sh", "-c", script))
        .setGpus(GpuRequest.newBuilder().setCount(1))
        .setWait(WaitTime.newBuilder().setForever(true))
        .setDetached(true);
  }
}
