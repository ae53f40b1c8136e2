package berth.cli;

import static berth.cli.SampleCluster.CHIEF;
import static berth.cli.SampleCluster.PS;
import static berth.cli.SampleCluster.WORKER_0;
import static berth.cli.SampleCluster.WORKER_1;
import static berth.cli.SampleCluster.ended;
import static berth.cli.SampleCluster.err;
import static berth.cli.SampleCluster.finished;
import static berth.cli.SampleCluster.out;
import static berth.cli.SampleCluster.started;
import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ClusterViewTest {
  private static final Terminal PIPE = new Terminal(false, false);
  private static final Terminal COLOURED = new Terminal(true, true);
  private static final Terminal PLAIN = new Terminal(true, false);

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();

  @Test
  void everyLineHasTheNameOfItsTaskInAColumn() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    show(view, out(CHIEF, "a\nb\n"), out(WORKER_1, "c\n"), err(PS, "d\n"), out(PS, "\n"));

    assertThat(text(out)).isEqualTo("[chief:0]  a\n[chief:0]  b\n[worker:1] c\n[ps:0]     \n");
    assertThat(text(err)).isEqualTo("[ps:0]     d\n");
  }

  @Test
  void linesThatComeInPiecesAreNotMixed() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    show(view, out(WORKER_0, "epoch "), out(WORKER_1, "loss"), err(WORKER_0, "warning\n"));
    assertThat(text(out)).isEmpty();

    show(view, out(WORKER_0, "1\nepo"), out(WORKER_1, " 0.5\n"), out(WORKER_0, "ch 2\n"));
    assertThat(text(out))
        .isEqualTo("[worker:0] epoch 1\n[worker:1] loss 0.5\n[worker:0] epoch 2\n");
    assertThat(text(err)).isEqualTo("[worker:0] warning\n");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 5})
  void charactersThatComeInPiecesSurvive(int piece) {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    byte[] bytes = "71°C – 😀\n".getBytes(StandardCharsets.UTF_8);
    for (int i = 0; i < bytes.length; i += piece) {
      byte[] part = Arrays.copyOfRange(bytes, i, Math.min(bytes.length, i + piece));
      view.accept(new ClusterEvent.Output(CHIEF, false, part));
    }

    assertThat(text(out)).isEqualTo("[chief:0]  71°C – 😀\n");
  }

  @Test
  void theLastLineNeedsNoEnd() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    show(view, out(CHIEF, "accuracy 0.98"), err(CHIEF, "bye"), out(PS, "serving"), ended(CHIEF));
    assertThat(text(out)).isEqualTo("[chief:0]  accuracy 0.98\n");
    assertThat(text(err)).isEqualTo("[chief:0]  bye\n");

    view.ended(SampleCluster.result(Outcome.SUCCEEDED, ""), 0);
    assertThat(text(out)).isEqualTo("[chief:0]  accuracy 0.98\n[ps:0]     serving\n");
  }

  @Test
  void aLineWithoutEndIsShownInParts() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    show(view, out(CHIEF, "x".repeat(65_530) + "€€€€€"));

    assertThat(text(out)).isEqualTo("[chief:0]  " + "x".repeat(65_530) + "€€\n");
    show(view, ended(CHIEF));
    assertThat(text(out)).endsWith("€€\n[chief:0]  €€€\n");
  }

  @Test
  void bytesThatAreNoTextPassAsTheyAre() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    byte[] noText = {(byte) 0xff, 0, (byte) 0x80, '\033', '[', '1', 'm', '\r', '\n'};
    view.accept(new ClusterEvent.Output(PS, false, noText));

    byte[] shown = out.toByteArray();
    assertThat(Arrays.copyOfRange(shown, "[ps:0]     ".length(), shown.length)).isEqualTo(noText);
  }

  @Test
  void everyTaskHasItsColourOnATerminal() {
    ClusterView view = view(COLOURED, RunView.Detail.QUIET);
    show(view, out(CHIEF, "a\n"), out(WORKER_0, "b\n"), err(CHIEF, "c\n"));

    assertThat(text(out)).isEqualTo("\033[36m[chief:0]\033[0m  a\n\033[33m[worker:0]\033[0m b\n");
    assertThat(text(err)).isEqualTo("\033[36m[chief:0]\033[0m  c\n");
  }

  @Test
  void colourIsForTheStreamThatIsATerminal() {
    ClusterView view =
        new ClusterView(
            new ClusterView.Shown(out, PIPE),
            new ClusterView.Shown(err, COLOURED),
            RunView.Detail.QUIET,
            ClusterTable.gpuCounts(SampleCluster.request()));
    show(view, out(CHIEF, "a\n"), err(CHIEF, "b\n"));

    assertThat(text(out)).isEqualTo("[chief:0]  a\n");
    assertThat(text(err)).isEqualTo("\033[36m[chief:0]\033[0m  b\n");
  }

  @Test
  void aColourThatAProgramLeavesOnEndsWithItsLine() {
    show(view(COLOURED, RunView.Detail.QUIET), out(CHIEF, "\033[31mred\n"));
    assertThat(text(out)).isEqualTo("\033[36m[chief:0]\033[0m  \033[31mred\033[0m\n");

    out.reset();
    show(view(PLAIN, RunView.Detail.QUIET), out(CHIEF, "\033[31mred\n"));
    assertThat(text(out)).isEqualTo("[chief:0]  \033[31mred\n");
  }

  @Test
  void aLineThatBeginsAnewKeepsItsNameOnATerminal() {
    show(view(PLAIN, RunView.Detail.QUIET), out(CHIEF, "10%\r20%\r\n"));
    assertThat(text(out)).isEqualTo("[chief:0]  10%\r[chief:0]  20%\r\n");

    out.reset();
    show(view(PIPE, RunView.Detail.QUIET), out(CHIEF, "10%\r20%\r\n"));
    assertThat(text(out)).isEqualTo("[chief:0]  10%\r20%\r\n");
  }

  @Test
  void saysWhereTheTasksAreAndHowTheyFare() {
    ClusterRequest request = SampleCluster.builder().task("tensorboard", 1, run -> {}).build();
    TaskName board = new TaskName("tensorboard", 0);
    ClusterView view = view(PIPE, RunView.Detail.ALL, request);
    show(
        view,
        new ClusterEvent.Waiting("no room for worker:1"),
        new ClusterEvent.Waiting("no room for worker:1"),
        SampleCluster.formed(request),
        started(CHIEF, 3),
        started(WORKER_0, 0, 1),
        started(PS),
        started(board),
        new ClusterEvent.AllStarted(),
        new ClusterEvent.Note("beware\033[2J"),
        ended(CHIEF),
        new ClusterEvent.Ended(finished(WORKER_0, 3)),
        new ClusterEvent.Ended(
            SampleCluster.result(PS, TaskResult.End.CANCELLED, 143, "cancelled")));

    assertThat(text(err))
        .isEqualTo(
            """
            berth: waiting: no room for worker:1
            TASK           SERVER  GPUS  ADDRESS
            chief:0        gpu0    1     10.0.0.0:2220
            worker:0       gpu1    all   10.0.0.1:2221
            worker:1       gpu2    all   10.0.0.2:2222
            ps:0           gpu3    0     10.0.0.3:2223
            tensorboard:0  gpu4    0     10.0.0.4:2224
            berth: chief:0 runs on gpu1, GPU 3 (run-0)
            berth: worker:0 runs on gpu1, GPUs 0,1 (run-0)
            berth: ps:0 runs on gpu1 (run-0)
            berth: tensorboard:0 runs on gpu1 (run-0)
            berth: TensorBoard: http://10.0.0.4:2224/
            berth: all 5 tasks run
            berth: beware?[2J
            berth: chief:0 ended: exit 0
            berth: worker:0 failed: exit 3
            berth: ps:0 ended: cancelled
            """);
    assertThat(text(out)).isEmpty();
  }

  @Test
  void saysWhatIsStartedAgainAndWhy() {
    show(
        view(PIPE, RunView.Detail.ALL),
        new ClusterEvent.Ended(finished(WORKER_1, 137)),
        new ClusterEvent.Restarting(WORKER_1, 2, Duration.ofSeconds(2), "exit code 137"),
        new ClusterEvent.Restarting(WORKER_1, 3, Duration.ZERO, ""),
        new ClusterEvent.Reforming("gpu02 is lost"),
        new ClusterEvent.Reforming(""),
        new ClusterEvent.Ended(
            SampleCluster.result(PS, TaskResult.End.RESTARTED, 143, "stopped, to start again")));

    assertThat(text(err))
        .isEqualTo(
            """
            berth: worker:1 failed: exit 137
            berth: worker:1 restarts in 2 s (attempt 2): exit code 137
            berth: worker:1 restarts (attempt 3)
            berth: the whole cluster restarts: gpu02 is lost
            berth: the whole cluster restarts
            berth: ps:0 ended: stopped, to start again
            """);
  }

  @Test
  void tellsOfImagesInFewLinesWhereNoPersonLooks() {
    ClusterView view = view(PIPE, RunView.Detail.ALL);
    for (int percent = 0; percent <= 60; percent++) {
      show(
          view,
          new ClusterEvent.Pulling(CHIEF, "tf:2", percent),
          new ClusterEvent.Pulling(PS, "tf:2", 0));
    }

    assertThat(text(err))
        .isEqualTo(
            """
            berth: chief:0: pulling tf:2: 0 %
            berth: ps:0: pulling tf:2: 0 %
            berth: chief:0: pulling tf:2: 25 %
            berth: chief:0: pulling tf:2: 50 %
            """);
  }

  @Test
  void erasesTheLineThatItRedrawsBeforeOutput() {
    ClusterView view = view(PLAIN, RunView.Detail.ALL);
    show(view, new ClusterEvent.Waiting("x"), new ClusterEvent.Pulling(PS, "i", 7), out(PS, "a\n"));

    assertThat(text(err)).isEqualTo("\r\033[Kwaiting: x\r\033[Kps:0: pulling i: 7 %\r\033[K");
  }

  @Test
  void aTaskThatRunsNoLongerFetchesItsImage() {
    ClusterView view = view(PLAIN, RunView.Detail.ALL);
    show(view, new ClusterEvent.Pulling(PS, "i", 99), started(PS));

    assertThat(text(err))
        .isEqualTo("\r\033[Kps:0: pulling i: 99 %\r\033[Kberth: ps:0 runs on gpu1 (run-0)\n");
  }

  @Test
  void countsManyTasksRatherThanToNameThem() {
    ClusterRequest request =
        ClusterRequest.named("big").task("worker", 60, run -> run.image("a")).build();
    ClusterView view = view(PIPE, RunView.Detail.ALL, request);
    show(view, SampleCluster.formed(request));
    request.tasks().forEach(task -> show(view, started(task)));
    show(view, new ClusterEvent.AllStarted());
    request.tasks().forEach(task -> show(view, ended(task)));
    TaskResult[] results =
        request.tasks().stream()
            .map(task -> finished(task, task.index() == 7 ? 1 : 0))
            .toArray(TaskResult[]::new);
    view.ended(SampleCluster.result(Outcome.FAILED, "worker:7 failed", results), 1);

    List<String> lines = text(err).lines().toList();
    assertThat(lines).hasSize(57);
    assertThat(lines.subList(50, 57))
        .containsExactly(
            "worker:49  gpu49   0     10.0.0.49:2269",
            "and 10 more",
            "berth: all 60 tasks run",
            "TASK      SERVER  RUN    EXIT  TIME  WHY",
            "worker:7  gpu1    run-7  1     61s   exit 1",
            "and 59 more",
            "berth: mnist failed after 5m: worker:7 failed");
  }

  @Test
  void theEndIsATable() {
    ClusterView view = view(PIPE, RunView.Detail.ALL);
    view.ended(
        SampleCluster.result(
            Outcome.FAILED,
            "worker:1 exited with 3",
            finished(CHIEF, 0),
            finished(WORKER_1, 3),
            SampleCluster.result(PS, TaskResult.End.CANCELLED, 143, "cancelled\033[2J"),
            new TaskResult(
                WORKER_0,
                "gpu1",
                "",
                TaskResult.End.NOT_STARTED,
                OptionalInt.empty(),
                "",
                Duration.ZERO,
                1)),
        3);

    assertThat(text(err))
        .isEqualTo(
            """
            TASK      SERVER  RUN    EXIT  TIME  WHY
            chief:0   gpu1    run-0  0     61s   exit 0
            worker:1  gpu1    run-1  3     61s   exit 3
            ps:0      gpu1    run-0  143   61s   cancelled?[2J
            worker:0  gpu1    -      -     -     not started
            berth: mnist failed after 5m: worker:1 exited with 3
            """);
  }

  @ParameterizedTest
  @CsvSource({
    "SUCCEEDED, ALL, berth: mnist succeeded after 5m",
    "TIME_LIMIT, ALL, berth: mnist ran out of time after 5m: x",
    "CANCELLED, ALL, berth: mnist was cancelled after 5m: x",
    "FAILED, QUIET, berth: mnist failed after 5m: x",
    "SUCCEEDED, QUIET,",
    "FAILED, JSON,",
  })
  void saysHowItEnded(Outcome outcome, RunView.Detail detail, String line) {
    String why = outcome == Outcome.SUCCEEDED ? "" : "x";
    view(PIPE, detail).ended(SampleCluster.result(outcome, why), 1);

    assertThat(text(err)).isEqualTo(line == null ? "" : line + "\n");
  }

  @Test
  void quietShowsNothingButOutput() {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    show(
        view,
        new ClusterEvent.Waiting("x"),
        SampleCluster.formed(SampleCluster.request()),
        started(CHIEF),
        new ClusterEvent.AllStarted(),
        out(CHIEF, "a\n"),
        new ClusterEvent.Note("x"),
        ended(CHIEF));

    assertThat(text(out)).isEqualTo("[chief:0]  a\n");
    assertThat(text(err)).isEmpty();
  }

  @Test
  void jsonIsOneLineAnEvent() {
    ClusterRequest request =
        ClusterRequest.named("mnist").task("worker", 2, run -> run.image("a")).build();
    ClusterView view = view(PIPE, RunView.Detail.JSON, request);
    show(
        view,
        new ClusterEvent.Waiting("<none> is \"free\""),
        SampleCluster.formed(request),
        new ClusterEvent.Pulling(WORKER_0, "tf:2", 5),
        started(WORKER_0, 0, 1),
        new ClusterEvent.AllStarted(),
        out(WORKER_0, "71°\tC\n\nab"),
        err(WORKER_1, "oops\n"),
        out(WORKER_0, "c"),
        ended(WORKER_0),
        new ClusterEvent.Restarting(WORKER_0, 2, Duration.ofMillis(1500), "exit 0"),
        new ClusterEvent.Reforming("gpu02 is lost"),
        new ClusterEvent.Note("n"));
    view.ended(SampleCluster.result(Outcome.FAILED, "why", finished(WORKER_0, 3)), 3);

    assertThat(text(out))
        .isEqualTo(
            """
            {"event":"waiting","why":"<none> is \\"free\\""}
            {"event":"formed","tasks":[{"task":"worker:0","server":"gpu0","address":"10.0.0.0:2220"},\
            {"task":"worker:1","server":"gpu1","address":"10.0.0.1:2221"}],\
            "cluster":{"worker":["10.0.0.0:2220","10.0.0.1:2221"]}}
            {"event":"pulling","task":"worker:0","image":"tf:2","percent":5}
            {"event":"started","task":"worker:0","server":"gpu1","run":"run-0","gpus":[0,1]}
            {"event":"allStarted"}
            {"event":"output","task":"worker:0","stream":"stdout","data":"71°\\tC\\n"}
            {"event":"output","task":"worker:0","stream":"stdout","data":"\\n"}
            {"event":"output","task":"worker:1","stream":"stderr","data":"oops\\n"}
            {"event":"output","task":"worker:0","stream":"stdout","data":"abc"}
            {"event":"ended","task":"worker:0","server":"gpu1","run":"run-0","attempt":1,\
            "end":"FINISHED",\
            "exitCode":0,"why":"exit 0","seconds":61.234}
            {"event":"restarting","task":"worker:0","attempt":2,"pauseSeconds":1.5,"why":"exit 0"}
            {"event":"reforming","why":"gpu02 is lost"}
            {"event":"note","text":"n"}
            {"event":"result","name":"mnist","outcome":"FAILED","why":"why","exitCode":3,\
            "seconds":300.0,"tasks":[{"task":"worker:0","server":"gpu1","run":"run-0",\
            "attempt":1,"end":"FINISHED","exitCode":3,"why":"exit 3","seconds":61.234}]}
            """);
    assertThat(text(err)).isEmpty();
  }

  @Test
  void aLongReasonIsCutInTheTableAlone() {
    String why = "x".repeat(100);
    ClusterView view = view(PIPE, RunView.Detail.ALL);
    view.ended(
        SampleCluster.result(
            Outcome.FAILED,
            why,
            SampleCluster.result(WORKER_0, TaskResult.End.NOT_STARTED, 0, why)),
        125);

    assertThat(text(err))
        .contains("61s   " + "x".repeat(57) + "...\n")
        .contains("failed after 5m: " + why + "\n");
  }

  @ParameterizedTest
  @CsvSource({"SUCCEEDED, ALL, true", "FAILED, ALL, true", "SUCCEEDED, QUIET, false"})
  void saysWhereTheLogsAre(
      Outcome outcome, RunView.Detail detail, boolean said, @TempDir Path folder) {
    ClusterView view = view(PIPE, detail);
    try (ClusterLogs logs = ClusterLogs.in(folder.resolve("x"), view::note)) {
      view.keepIn(logs);
      show(view, out(CHIEF, "a"));
      view.ended(SampleCluster.result(outcome, ""), 0);
    }

    assertThat(text(err).endsWith("berth: logs: " + folder.resolve("x") + "\n")).isEqualTo(said);
  }

  @Test
  void saysWhereTheLogsAreAlsoQuietlyIfSomethingFailed(@TempDir Path folder) {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    try (ClusterLogs logs = ClusterLogs.in(folder.resolve("x"), view::note)) {
      view.keepIn(logs);
      show(view, out(CHIEF, "a"));
      view.ended(SampleCluster.result(Outcome.FAILED, ""), 1);
    }

    assertThat(text(err))
        .isEqualTo("berth: mnist failed after 5m\nberth: logs: " + folder.resolve("x") + "\n");
  }

  @Test
  void aReaderThatHasGoneIsToldAndTheLogsGoOn(@TempDir Path folder) throws IOException {
    OutputStream gone =
        new OutputStream() {
          @Override
          public void write(int b) throws IOException {
            throw new IOException("Broken pipe");
          }
        };
    ClusterView view =
        new ClusterView(
            new ClusterView.Shown(gone, PIPE),
            new ClusterView.Shown(err, PIPE),
            RunView.Detail.ALL,
            ClusterTable.gpuCounts(SampleCluster.request()));
    try (ClusterLogs logs = ClusterLogs.in(folder, view::note)) {
      view.keepIn(logs);
      show(view, err(CHIEF, "x\n"));
      assertThat(view.unwritable()).isNotDone();
      show(view, out(CHIEF, "a\n"));
      assertThat(view.unwritable())
          .isCompletedWithValueMatching(failure -> failure.getMessage().equals("Broken pipe"));
      show(view, out(CHIEF, "b\n"), err(CHIEF, "y\n"), ended(CHIEF));
      view.ended(SampleCluster.result(Outcome.CANCELLED, "", finished(CHIEF, 0)), 130);
    }

    assertThat(folder.resolve("chief-0.log")).hasContent("x\na\nb\ny\n");
    assertThat(text(err)).isEqualTo("[chief:0]  x\n");
  }

  @Test
  void linesStayWholeWhenManyThreadsPrint() throws InterruptedException {
    ClusterView view = view(PIPE, RunView.Detail.QUIET);
    List<Thread> threads = new ArrayList<>();
    for (TaskName task : SampleCluster.request().tasks()) {
      Thread thread =
          new Thread(
              () -> {
                for (int i = 0; i < 2000; i++) {
                  view.accept(out(task, "li"));
                  view.accept(out(task, "ne " + i + "\n"));
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }

    List<String> lines = text(out).lines().toList();
    assertThat(lines).hasSize(8000);
    for (TaskName task : SampleCluster.request().tasks()) {
      assertThat(lines.stream().filter(line -> line.startsWith("[" + task + "]")))
          .map(line -> line.replaceFirst("^\\[[^]]*] *", ""))
          .hasSize(2000)
          .startsWith("line 0")
          .endsWith("line 1999")
          .allMatch(line -> line.matches("line \\d+"));
    }
  }

  private ClusterView view(Terminal terminal, RunView.Detail detail) {
    return view(terminal, detail, SampleCluster.request());
  }

  private ClusterView view(Terminal terminal, RunView.Detail detail, ClusterRequest request) {
    return new ClusterView(
        new ClusterView.Shown(out, terminal),
        new ClusterView.Shown(err, terminal),
        detail,
        ClusterTable.gpuCounts(request));
  }

  private static void show(ClusterView view, ClusterEvent... events) {
    for (ClusterEvent event : events) {
      view.accept(event);
    }
  }

  private static String text(ByteArrayOutputStream stream) {
    return stream.toString(StandardCharsets.UTF_8);
  }
}
