package berth.e2e.runs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Heard;
import berth.e2e.fixture.RunServer;
import berth.v1.CancelRunRequest;
import berth.v1.GpuRequest;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import berth.v1.Source;
import berth.v1.WaitTime;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** As many runs with as much code as nobody's memory holds. */
@Timeout(value = 15, unit = TimeUnit.MINUTES)
class LargeRunsTest {
  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final int WAITING = 40;
  // Each of them takes the time of a program.
  private static final int OVER = 10;

  @TempDir private static Path folder;

  @Test
  void manyLargeRunsThatWaitAndThatAreOverSurviveAKilledServerInTheirOrder() throws Exception {
    try (RunServer server =
        new RunServer(folder, "--runtime", "process", "--allow-root", "--simulate-gpus", "1")) {
      List<String> over = new ArrayList<>();
      for (int i = 0; i < OVER; i++) {
        Heard heard = server.run(large("exit 3"));
        over.add(heard.runId());
        assertThat(heard.exited().getExitCode()).isEqualTo(3);
      }
      Heard holder = server.run(detached(large("exec sleep 1000").setGpus(one())));
      await().atMost(PATIENCE).until(() -> state(server, holder) == RunState.RUN_STATE_RUNNING);
      List<String> waiting = new ArrayList<>();
      for (int i = 0; i < WAITING; i++) {
        waiting.add(server.run(detached(large("echo it is $NV_GPU").setGpus(one()))).runId());
      }

      server.kill();
      server.start();

      assertThat(ids(server, RunState.RUN_STATE_ENDED)).isEqualTo(over);
      assertThat(ids(server, RunState.RUN_STATE_QUEUED)).isEqualTo(waiting);
      await()
          .atMost(PATIENCE)
          .untilAsserted(() -> assertThat(inTheirPlaces(server)).isEqualTo(waiting));
      waiting.subList(1, WAITING).forEach(id -> cancel(server, id));
      cancel(server, holder.runId());
      Heard first = server.attach(waiting.get(0), 0);
      assertThat(first.exited().getExitCode()).isZero();
      assertThat(first.outText()).isEqualTo("it is 0\n");
      server.assertNothingLeft();
    }
  }

  /** Fields of a later version, or of somebody who means no good. */
  @Test
  void whatNobodyKnowsInRequestsIsNotKeptOverAStart() throws Exception {
    Path own = Files.createDirectory(folder.resolve("unknown"));
    try (RunServer server =
        new RunServer(own, "--runtime", "process", "--allow-root", "--simulate-gpus", "1")) {
      Heard holder =
          server.run(
              detached(
                  RunCodeRequest.newBuilder()
                      .addAllCommand(List.of("sleep", "1000"))
                      .setGpus(one())));
      await().atMost(PATIENCE).until(() -> state(server, holder) == RunState.RUN_STATE_RUNNING);
      UnknownFieldSet unknown =
          UnknownFieldSet.newBuilder()
              .addField(
                  5000,
                  UnknownFieldSet.Field.newBuilder()
                      .addLengthDelimited(ByteString.copyFrom(new byte[15 << 20]))
                      .build())
              .build();
      List<String> waiting = new ArrayList<>();
      for (int i = 0; i < OVER; i++) {
        RunCodeRequest.Builder request =
            RunCodeRequest.newBuilder().addCommand("true").setGpus(one());
        request.getLimitsBuilder().setUnknownFields(unknown);
        waiting.add(server.run(detached(request)).runId());
      }

      try (Stream<Path> files = Files.walk(own)) {
        List<Path> requests =
            files.filter(file -> file.getFileName().toString().equals("request")).toList();
        assertThat(requests).hasSize(OVER + 1);
        assertThat(requests).allSatisfy(file -> assertThat(Files.size(file)).isLessThan(10_000));
      }
      server.kill();
      server.start();

      assertThat(ids(server, RunState.RUN_STATE_QUEUED)).isEqualTo(waiting);
      waiting.forEach(id -> cancel(server, id));
      cancel(server, holder.runId());
      server.assertNothingLeft();
    }
  }

  private static List<String> ids(RunServer server, RunState state) {
    return server.runs().listRuns(RunServer.TIMEOUT).getRunsList().stream()
        .filter(run -> run.getState() == state)
        .map(Run::getRunId)
        .toList();
  }

  /** Who waits, by how many are before them. */
  private static List<String> inTheirPlaces(RunServer server) {
    String[] places = new String[WAITING];
    Arrays.fill(places, "");
    for (Run run : server.runs().listRuns(RunServer.TIMEOUT).getRunsList()) {
      if (run.getState() == RunState.RUN_STATE_QUEUED) {
        places[run.getAhead()] = run.getRunId();
      }
    }
    return List.of(places);
  }

  private static RunState state(RunServer server, Heard run) {
    return server.get(run.runId()).getState();
  }

  private static void cancel(RunServer server, String id) {
    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(id).setForce(true).build(), RunServer.TIMEOUT);
  }

  private static GpuRequest one() {
    return GpuRequest.newBuilder().setCount(1).build();
  }

  private static RunCodeRequest.Builder detached(RunCodeRequest.Builder request) {
    return request.setDetached(true).setWait(WaitTime.newBuilder().setForever(true));
  }

  /** A script of 8 MiB beside files of 4 MiB, as large as they may be. */
  private static RunCodeRequest.Builder large(String script) {
    byte[] source = new byte[8 << 20];
    Arrays.fill(source, (byte) '\n');
    byte[] line = script.getBytes(StandardCharsets.UTF_8);
    System.arraycopy(line, 0, source, 0, line.length);
    return RunCodeRequest.newBuilder()
        .setSource(
            Source.newBuilder()
                .setFileName("run.sh")
                .setContent(ByteString.copyFrom(source))
                .addInterpreter("sh"))
        .putFiles("data", ByteString.copyFrom(new byte[4 << 20]));
  }
}
