package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.FakeRuns;
import berth.v1.ExitReason;
import berth.v1.OutputStream;
import berth.v1.OutputTruncated;
import berth.v1.Pulling;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunStarted;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RunViewTest {
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();

  @Test
  void showsFewPlainLinesWhereNoPersonLooks() {
    RunView view = view(false, RunView.Detail.ALL);
    show(view, FakeRuns.accepted(), FakeRuns.queued(1), FakeRuns.queued(0));
    for (int percent = 0; percent <= 100; percent++) {
      show(view, pulling(percent));
    }
    show(view, FakeRuns.started(), FakeRuns.output(0, "hello"), FakeRuns.finished());

    assertThat(text(err))
        .isEqualTo(
            """
            berth: run-6b1fd2c9aa: waiting behind 1 request
            berth: run-6b1fd2c9aa: next in line, waiting for GPUs
            berth: pulling tf:2
            berth: pulling tf:2: 25 %
            berth: pulling tf:2: 50 %
            berth: pulling tf:2: 75 %
            berth: pulling tf:2: 100 %
            """);
    assertThat(text(out)).isEqualTo("hello");
    assertThat(view.runId()).isEqualTo(FakeRuns.ID);
  }

  @Test
  void redrawsOneLineOnATerminalAndErasesItBeforeTheOutput() {
    RunView view = view(true, RunView.Detail.ALL);
    show(view, FakeRuns.accepted(), FakeRuns.queued(1), pulling(40), FakeRuns.started());
    show(view, FakeRuns.output(0, "x"), FakeRuns.finished());

    String erase = "\r\033[K";
    assertThat(text(err))
        .isEqualTo(
            erase
                + "run-6b1fd2c9aa: waiting behind 1 request"
                + erase
                + "pulling tf:2: 40 %, 400 MiB of 1000 MiB"
                + erase);
  }

  @Test
  void keepsTheStreamsApartByteForByte() {
    RunView view = view(false, RunView.Detail.ALL);
    show(
        view,
        FakeRuns.output(0, "out\033[1m\r"),
        FakeRuns.output(OutputStream.OUTPUT_STREAM_STDERR, 8, "err\n"));

    assertThat(text(out)).isEqualTo("out\033[1m\r");
    assertThat(text(err)).isEqualTo("err\n");
  }

  @Test
  void tellsWhatAPersonShouldKnow() {
    RunView view = view(false, RunView.Detail.ALL);
    tellAll(view);

    assertThat(text(err))
        .isEqualTo(
            """
            berth: not isolated: a plain process of gpu01
            berth: not enforced here: memory of 8 GiB
            berth: standard output is at its limit of 9 bytes: the server drops the rest; the program continues
            berth: : cancelled by ann?[2J@laptop
            berth: its GPUs are not free yet: process 7 is still on GPU 0
            """);
  }

  @Test
  void quietTellsOnlyWhyItFailed() {
    RunView view = view(false, RunView.Detail.QUIET);
    show(view, FakeRuns.accepted(), FakeRuns.queued(2));
    tellAll(view);

    assertThat(text(err)).isEqualTo("berth: run-6b1fd2c9aa: cancelled by ann?[2J@laptop\n");
  }

  @Test
  void saysWhatIsWrongWithTheServerWhileItWaits() {
    RunView view = view(false, RunView.Detail.ALL);
    show(
        view,
        FakeRuns.accepted(),
        berth.v1.RunEvent.newBuilder()
            .setQueued(
                berth.v1.Queued.newBuilder().setAhead(1).setWaitingBecause("GPU 0 is lost\u001b"))
            .build());

    assertThat(text(err)).contains("waiting behind 1 request: GPU 0 is lost?");
  }

  @Test
  void jsonIsOneLineAnEvent() {
    RunView view = view(false, RunView.Detail.JSON);
    show(view, FakeRuns.accepted(), FakeRuns.queued(2), FakeRuns.output(0, "hi"));

    assertThat(text(out))
        .isEqualTo(
            """
            {"accepted":{"runId":"run-6b1fd2c9aa","server":"gpu01"}}
            {"queued":{"ahead":2,"waitingBecause":""}}
            {"output":{"stream":"OUTPUT_STREAM_STDOUT","offset":"0","data":"aGk="}}
            """);
    assertThat(text(err)).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "FINISHED, 0, 0",
    "FINISHED, 7, 7",
    "FINISHED, 125, 125",
    "FINISHED, 127, 127",
    "FINISHED, 139, 139",
    "TIME_LIMIT, 143, 124",
    "TIME_LIMIT, 0, 124",
    "IDLE, 143, 124",
    "OUT_OF_MEMORY, 137, 137",
    "OUT_OF_MEMORY, 0, 125",
    "CANCELLED, 143, 143",
    "CANCELLED, 0, 125",
    "IMAGE_NOT_FOUND, 0, 125",
    "START_FAILED, 0, 125",
    "START_FAILED, 127, 127",
    "SERVER_LOST, 0, 125",
    "NOT_RESERVED, 0, 125",
  })
  void theExitCodeIsTheProgramsUnlessBerthEndedIt(String reason, int own, int expected) {
    RunExited exited = exited("EXIT_REASON_" + reason, own);

    assertThat(RunEnd.exitCode(exited, OptionalInt.empty())).isEqualTo(expected);
    int afterCtrlC = RunEnd.exitCode(exited, OptionalInt.of(130));
    assertThat(afterCtrlC).isEqualTo(reason.equals("CANCELLED") ? 130 : expected);
  }

  private static RunExited exited(String reason, int code) {
    return RunExited.newBuilder().setReason(ExitReason.valueOf(reason)).setExitCode(code).build();
  }

  private static void tellAll(RunView view) {
    show(
        view,
        RunEvent.newBuilder()
            .setStarted(RunStarted.newBuilder().setHost("gpu01").addNotEnforced("memory of 8 GiB"))
            .build(),
        RunEvent.newBuilder()
            .setTruncated(
                OutputTruncated.newBuilder()
                    .setStream(OutputStream.OUTPUT_STREAM_STDOUT)
                    .setKeptBytes(9))
            .build(),
        RunEvent.newBuilder()
            .setExited(
                exited("EXIT_REASON_CANCELLED", 143).toBuilder()
                    .setMessage("cancelled by ann\033[2J@laptop")
                    .setHeldBack("process 7 is still on GPU 0"))
            .build());
  }

  private static RunEvent pulling(int percent) {
    return RunEvent.newBuilder()
        .setPulling(
            Pulling.newBuilder()
                .setImage("tf:2")
                .setPercent(percent)
                .setBytesDone(percent * 10L << 20)
                .setBytes(1000L << 20))
        .build();
  }

  private RunView view(boolean terminal, RunView.Detail detail) {
    return new RunView(out, err, terminal, detail);
  }

  private static void show(RunView view, RunEvent... events) {
    for (RunEvent event : events) {
      view.accept(event);
    }
  }

  private static String text(ByteArrayOutputStream stream) {
    return stream.toString(StandardCharsets.UTF_8);
  }
}
