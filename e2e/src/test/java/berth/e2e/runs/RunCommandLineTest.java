package berth.e2e.runs;

import static berth.fake.FakeRuns.accepted;
import static berth.fake.FakeRuns.end;
import static berth.fake.FakeRuns.exited;
import static berth.fake.FakeRuns.finished;
import static berth.fake.FakeRuns.output;
import static berth.fake.FakeRuns.queued;
import static berth.fake.FakeRuns.send;
import static berth.fake.FakeRuns.started;
import static org.assertj.core.api.Assertions.assertThat;

import berth.client.call.TarPacker;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.fake.FakeRuns;
import berth.fake.Upload;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.ExitReason;
import berth.v1.ListRunsResponse;
import berth.v1.OutputStream;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The installed {@code berth} before a server that only plays runs. */
class RunCommandLineTest {
  private static final int SECONDS = 60;

  @TempDir private Path folder;
  private final FakeRuns server = new FakeRuns();
  private final LinkedBlockingQueue<StreamObserver<RunEvent>> streams = new LinkedBlockingQueue<>();
  private final List<Process> processes = new ArrayList<>();

  @AfterEach
  void close() {
    processes.forEach(Process::destroyForcibly);
    server.close();
  }

  @Test
  void runsAScriptAndPassesItsOutputAndExitCode() throws Exception {
    Path script = Files.writeString(folder.resolve("train.py"), "print()\n");
    server.onRun =
        (request, stream) ->
            end(
                stream,
                accepted(),
                queued(1),
                started(),
                output(0, "to out\n"),
                output(OutputStream.OUTPUT_STREAM_STDERR, 7, "to err\n"),
                exited(ExitReason.EXIT_REASON_FINISHED, 7, ""));

    Result result = berth("run", "--gpus", "1", script.toString(), "--epochs", "3");

    assertThat(result.out()).isEqualTo("to out\n");
    assertThat(result.err())
        .isEqualTo("berth: " + FakeRuns.ID + ": waiting behind 1 request\nto err\n");
    assertThat(result.exitCode()).isEqualTo(7);
    RunCodeRequest request = server.asked.take();
    assertThat(request.getSource().getContent().toStringUtf8()).isEqualTo("print()\n");
    assertThat(request.getCommandList()).containsExactly("--epochs", "3");
  }

  @Test
  void aRunThatTheServerRefusesIsAFailureOfBerth() {
    server.onRun = (request, stream) -> FakeRuns.fail(stream, Reason.NOT_FOUND, "no service tf");

    Result result = berth("run", "--service", "tf", "--", "train");

    assertThat(result.err()).isEqualTo("berth: no service tf\n");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @Test
  void theFirstCtrlCCancelsTheSecondKillsAndOutputIsShownToTheEnd() throws Exception {
    Process run = runUntilStarted();
    StreamObserver<RunEvent> stream = streams.take();

    signal(run, "INT");
    assertThat(nextCancel().getForce()).isFalse();
    assertThat(run.errorReader().readLine()).isEqualTo("berth: cancelling; Ctrl-C again kills");
    send(stream, output(6, "saving\n"));
    assertThat(run.inputReader().readLine()).isEqualTo("saving");
    signal(run, "INT");
    assertThat(nextCancel().getForce()).isTrue();
    end(stream, exited(ExitReason.EXIT_REASON_CANCELLED, 137, "cancelled by ann@laptop"));

    assertThat(exitCode(run)).isEqualTo(130);
    assertThat(run.errorReader().lines())
        .containsExactly(
            "berth: killing " + FakeRuns.ID, "berth: " + FakeRuns.ID + ": cancelled by ann@laptop");
  }

  @Test
  void sigtermCancelsToo() throws Exception {
    Process run = runUntilStarted();
    StreamObserver<RunEvent> stream = streams.take();

    signal(run, "TERM");
    nextCancel();
    end(stream, exited(ExitReason.EXIT_REASON_CANCELLED, 143, "cancelled"));

    assertThat(exitCode(run)).isEqualTo(143);
  }

  @Test
  void ctrlCInTheQueueEndsAlsoWithAStatus() throws Exception {
    server.onRun =
        (request, stream) -> {
          send(stream, accepted(), queued(3));
          streams.add(stream);
        };
    Process run = start("run", "--gpus", "1", "--image", "x", "--", "train");
    StreamObserver<RunEvent> stream = streams.take();
    assertThat(run.errorReader().readLine()).endsWith("waiting behind 3 requests");

    signal(run, "INT");
    nextCancel();
    FakeRuns.fail(stream, Reason.CANCELLED, "cancelled by ann@laptop");

    assertThat(exitCode(run)).isEqualTo(130);
  }

  @Test
  void whoReadsNoMoreCancelsTheRun() throws Exception {
    Process run = runUntilStarted();
    StreamObserver<RunEvent> stream = streams.take();

    run.inputReader().close();
    send(stream, output(6, "nobody reads this\n"));

    nextCancel();
    assertThat(exitCode(run)).isEqualTo(141);
  }

  @Test
  void passesMuchOutputUnharmed() throws Exception {
    String piece = "0123456789abcdef".repeat(4096);
    int pieces = 500;
    server.onRun =
        (request, stream) -> {
          send(stream, accepted(), started());
          for (int i = 0; i < pieces; i++) {
            send(stream, output((long) i * piece.length(), piece));
          }
          end(stream, finished());
        };

    Result result = berth("run", "--image", "x", "--", "train");

    assertThat(result.exitCode()).isZero();
    assertThat(result.out().equals(piece.repeat(pieces))).isTrue();
  }

  @Test
  void aPersonAtATerminalSeesALineThatGoesAwayBeforeTheOutput() {
    server.onRun =
        (request, stream) ->
            end(stream, accepted(), queued(1), started(), output(0, "hello\n"), finished());
    String command =
        Installed.command("berth")
            + " run --gpus 1 --image x --server "
            + server.address()
            + " -- train";

    Result result = Installed.run("script", "-qec", command, "/dev/null");

    String erase = "\r\033[K";
    assertThat(result.out())
        .isEqualTo(erase + FakeRuns.ID + ": waiting behind 1 request" + erase + "hello\r\n");
    assertThat(result.exitCode()).isZero();
  }

  @Test
  void goesOnWithARunWhenItsServerIsBack() throws Exception {
    Process run = runUntilStarted();
    server.onAttach =
        (request, stream) -> end(stream, accepted(), started(), output(6, "back\n"), finished());
    server.restart(streams.take());

    assertThat(run.inputReader().lines()).containsExactly("back");
    assertThat(exitCode(run)).isZero();
    assertThat(server.attached).last().matches(AttachRunRequest::getHolding);
  }

  @Test
  void aDetachedRunPrintsItsIdAlone() throws Exception {
    server.onRun = (request, stream) -> end(stream, accepted());

    Result result = berth("run", "-d", "--image", "busybox:1.35", "--", "sleep", "9");

    assertThat(result).isEqualTo(new Result(0, FakeRuns.ID + "\n", ""));
    assertThat(server.asked.take().getDetached()).isTrue();
  }

  @Test
  void sendsABundleAndFetchesTheOutputs() throws Exception {
    Path project = Files.createDirectories(folder.resolve("project/src")).getParent();
    Files.writeString(project.resolve("src/train.py"), "print()");
    Path results = Files.createDirectories(folder.resolve("results/model")).getParent();
    Files.writeString(results.resolve("model/weights"), "42");
    Path packed = folder.resolve("results.tar");
    TarPacker.pack(results, packed);
    server.files = Files.readAllBytes(packed);
    LinkedBlockingQueue<Upload> uploads = new LinkedBlockingQueue<>();
    server.onUpload =
        answer -> {
          uploads.add(new Upload(answer, false));
          return uploads.peek();
        };
    server.onRun = (request, stream) -> end(stream, accepted(), started(), finished());
    Path fetched = folder.resolve("fetched");

    Result result =
        berth(
            "run",
            "--bundle",
            project.toString(),
            "--output",
            "model/*",
            "--output-dir",
            fetched.toString(),
            "src/train.py");

    assertThat(result).isEqualTo(new Result(0, "", ""));
    RunCodeRequest request = server.asked.take();
    assertThat(request.getCommandList()).containsExactly("python3", "-u", "src/train.py");
    assertThat(request.getBundle()).isEqualTo(TarPacker.pack(project, folder.resolve("again.tar")));
    assertThat(uploads.take().content.toByteArray())
        .isEqualTo(Files.readAllBytes(folder.resolve("again.tar")));
    assertThat(fetched.resolve("model/weights")).hasContent("42");
  }

  @Test
  void ctrlCOnlyDetachesWhoAttached() throws Exception {
    server.runs = runs(Run.newBuilder().setRunId(FakeRuns.ID).setOutputBytes(6));
    server.onAttach =
        (request, stream) -> {
          send(stream, accepted(), started(), output(6, "now\n"));
          streams.add(stream);
        };
    Process attach = start("attach", "run-6");
    assertThat(attach.inputReader().readLine()).isEqualTo("now");

    signal(attach, "INT");

    assertThat(exitCode(attach)).isZero();
    assertThat(attach.errorReader().lines())
        .containsExactly("berth: detached from " + FakeRuns.ID + "; it continues");
    assertThat(server.cancelled).isEmpty();
    assertThat(server.attached.get(0).getFromOffset()).isEqualTo(6);
    assertThat(server.attached.get(0).getHolding()).isFalse();
  }

  @Test
  void printsTheLogsOfARun() {
    server.runs = runs(Run.newBuilder().setRunId(FakeRuns.ID));
    server.onAttach =
        (request, stream) -> end(stream, accepted(), started(), output(2, "llo\n"), finished());

    assertThat(berth("logs", "--from", "2", FakeRuns.ID)).isEqualTo(new Result(0, "llo\n", ""));
    assertThat(server.attached.get(0).getNoFollow()).isTrue();
  }

  @Test
  void cancelsByUniqueBeginnings() throws Exception {
    server.runs =
        runs(
            Run.newBuilder().setRunId("run-12"),
            Run.newBuilder().setRunId("run-1"),
            Run.newBuilder().setRunId("run-234"));

    Result result = berth("cancel", "--force", "run-2", "run-1", "run", "nope");

    assertThat(server.cancelled)
        .extracting(CancelRunRequest::getRunId)
        .containsExactly("run-234", "run-1");
    assertThat(server.cancelled).allSatisfy(request -> assertThat(request.getForce()).isTrue());
    assertThat(result.err())
        .isEqualTo(
            """
            berth: 'run' matches several runs: run-234, run-1, run-12
            berth: there is no run 'nope', nor a run of yours with this name; 'berth runs --all' lists them
            """);
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @Test
  void removesByUniqueBeginningsAllThatItCan() {
    server.runs = runs(Run.newBuilder().setRunId("run-12"), Run.newBuilder().setRunId("run-234"));

    Result result = berth("rm", "nope", "run-2", "run-12");

    assertThat(server.removed).containsExactly("run-234", "run-12");
    assertThat(result.err())
        .isEqualTo(
            "berth: there is no run 'nope', nor a run of yours with this name; 'berth runs --all'"
                + " lists them\n");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @Test
  void copiesAsDockerDoes() throws Exception {
    server.runs = runs(Run.newBuilder().setRunId(FakeRuns.ID));
    Path results = Files.createDirectories(folder.resolve("results/model/deep")).getParent();
    Files.writeString(results.resolve("deep/weights"), "42");
    Path packed = folder.resolve("results.tar");
    TarPacker.pack(results.getParent(), packed);
    server.files = Files.readAllBytes(packed);
    Path into = Files.createDirectory(folder.resolve("into"));

    assertThat(copy("model", into).exitCode()).isZero();
    assertThat(into.resolve("model/deep/weights")).hasContent("42");
    assertThat(copy("model/deep", into).exitCode()).isZero();
    assertThat(into.resolve("deep/weights")).hasContent("42");
    assertThat(copy("/work/model/deep/weights", into.resolve("renamed")).exitCode()).isZero();
    assertThat(into.resolve("renamed")).hasContent("42");
    assertThat(copy(".", folder.resolve("all")).exitCode()).isZero();
    assertThat(folder.resolve("all/model/deep/weights")).hasContent("42");
    assertThat(copy("model/*", into.resolve("none")).err())
        .isEqualTo(
            "berth: the pattern model/* needs a folder as DEST: "
                + into.resolve("none")
                + " is none\n");
  }

  @Test
  void neitherOverwritesAFileNorMakesFoldersUnlessAsked() throws Exception {
    server.runs = runs(Run.newBuilder().setRunId(FakeRuns.ID));
    Path results = Files.createDirectory(folder.resolve("results"));
    Files.writeString(results.resolve("log"), "new");
    Path packed = folder.resolve("results.tar");
    TarPacker.pack(results, packed);
    server.files = Files.readAllBytes(packed);
    server.onRun = (request, stream) -> end(stream, accepted(), started(), finished());
    Path into = Files.createDirectory(folder.resolve("into"));
    Path mine = Files.writeString(into.resolve("log"), "mine");
    Path missing = folder.resolve("missing");

    String exists = mine + " exists; use --force to overwrite\n";
    assertThat(copy("log", into)).isEqualTo(new Result(125, "", "berth: " + exists));
    assertThat(copy("log", mine)).isEqualTo(new Result(125, "", "berth: " + exists));
    assertThat(copy("log", missing.resolve("log")))
        .isEqualTo(new Result(125, "", "berth: no folder " + missing + "; create it first\n"));
    String[] run = {"--image", "x", "-o", "log", "--output-dir", into.toString(), "--", "true"};
    assertThat(berth("run", run)).isEqualTo(new Result(125, "", "berth: --output log: " + exists));
    assertThat(server.asked).isEmpty();
    assertThat(mine).hasContent("mine");
    assertThat(missing).doesNotExist();

    assertThat(berth("cp", "--force", FakeRuns.ID + ":log", mine.toString()).exitCode()).isZero();
    assertThat(mine).hasContent("new");
  }

  private Result copy(String path, Path to) {
    return berth("cp", FakeRuns.ID + ":" + path, to.toString());
  }

  private static ListRunsResponse runs(Run.Builder... runs) {
    ListRunsResponse.Builder response = ListRunsResponse.newBuilder().setServer("gpu01");
    for (Run.Builder run : runs) {
      response.addRuns(run);
    }
    return response.build();
  }

  private Result berth(String command, String... args) {
    List<String> words = new ArrayList<>(List.of(command, "--server", server.address().toString()));
    words.addAll(List.of(args));
    return Installed.berth(words.toArray(String[]::new));
  }

  private Process runUntilStarted() throws IOException {
    server.onRun =
        (request, stream) -> {
          send(stream, accepted(), started(), output(0, "ready\n"));
          streams.add(stream);
        };
    Process run = start("run", "--image", "x", "--", "train");
    assertThat(run.inputReader().readLine()).isEqualTo("ready");
    return run;
  }

  private Process start(String command, String... args) throws IOException {
    List<String> words =
        new ArrayList<>(
            List.of(Installed.command("berth"), command, "--server", server.address().toString()));
    words.addAll(List.of(args));
    Process process = new ProcessBuilder(Installed.heedingCtrlC(words)).start();
    processes.add(process);
    return process;
  }

  private CancelRunRequest nextCancel() throws InterruptedException {
    CancelRunRequest cancel = server.cancelled.poll(SECONDS, TimeUnit.SECONDS);
    assertThat(cancel).isNotNull();
    assertThat(cancel.getRunId()).isEqualTo(FakeRuns.ID);
    return cancel;
  }

  private static void signal(Process process, String name) {
    assertThat(Installed.run("kill", "-" + name, "" + process.pid()).exitCode()).isZero();
  }

  private static int exitCode(Process process) throws InterruptedException {
    assertThat(process.waitFor(SECONDS, TimeUnit.SECONDS)).isTrue();
    return process.exitValue();
  }
}
