package berth.e2e.runs;

import static berth.e2e.fixture.Asked.AWAIT_GO;
import static berth.e2e.fixture.Asked.shell;
import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.RunServer;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.OutputStream;
import berth.v1.OutputTruncated;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Much output, and those who read it. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class RunOutputTest {
  private static final int LIMIT = 120_000_000;

  @TempDir private static Path folder;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  static void start(Engine shared) {
    engine = shared;
    // A heap that has room for one of the long outputs below, and not for two.
    server =
        new RunServer(
            folder,
            Map.of("BERTH_JAVA_OPTS", "-Xmx80m -Djava.io.tmpdir=" + folder),
            "--docker",
            engine.host(),
            "--simulate-gpus",
            "1",
            "--output-limit",
            LIMIT / 1_000_000 + "m");
  }

  @AfterEach
  void leavesNothing() {
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
    assertThat(server.daemon().log()).doesNotContain("OutOfMemoryError");
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @Test
  void manyReadFromWhereverTheyLikeWhileItRunsAndAfterwards() throws Exception {
    Heard first = server.run(shell("echo 0123456789; " + AWAIT_GO + "; echo abcdef; exit 3"));
    first.awaitOutput(11);
    String id = first.runId();
    Heard second = server.attach(id, 4);
    second.awaitOutput(7);
    Heard third = server.attach(id, 11);

    Files.createFile(server.runFolder(id).resolve("work/go"));

    assertThat(first.exited()).isEqualTo(second.exited()).isEqualTo(third.exited());
    assertThat(first.outText()).isEqualTo("0123456789\nabcdef\n");
    assertThat(second.outText()).isEqualTo("456789\nabcdef\n");
    assertThat(third.outText()).isEqualTo("abcdef\n");
    Heard later = server.attach(id, 13);
    assertThat(later.exited().getExitCode()).isEqualTo(3);
    assertThat(later.outText()).isEqualTo("cdef\n");
    assertThat(server.attach(id, 18).exited().getExitCode()).isEqualTo(3);
    assertThat(server.attach(id, 19).failed().reason()).isEqualTo(Reason.INVALID);
  }

  @Test
  void whoDoesNotWaitGetsWhatThereIs() throws Exception {
    Heard run = server.run(shell("echo now; " + AWAIT_GO));
    run.awaitOutput(4);
    List<RunEvent> got = new ArrayList<>();

    server
        .runs()
        .attachRun(
            AttachRunRequest.newBuilder().setRunId(run.runId()).setNoFollow(true).build(),
            got::add);

    assertThat(got.get(got.size() - 1).getOutput().getData().toStringUtf8()).isEqualTo("now\n");
    Files.createFile(server.runFolder(run.runId()).resolve("work/go"));
    assertThat(run.exited().getExitCode()).isZero();
  }

  @Test
  void aHundredMegabytesOnOneLineArriveByteForByte() throws Exception {
    int bytes = 100_000_000;
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    AtomicLong length = new AtomicLong();
    MessageDigest expected = MessageDigest.getInstance("SHA-256");
    expected.update(numbers(bytes));

    server
        .runs()
        .runCode(
            shell("seq 10000000 99999999 | tr '\\n' ' ' | head -c " + bytes).build(),
            event -> {
              if (event.hasOutput()) {
                digest.update(event.getOutput().getData().asReadOnlyByteBuffer());
                length.addAndGet(event.getOutput().getData().size());
              }
            });

    assertThat(length.get()).isEqualTo(bytes);
    assertThat(digest.digest()).isEqualTo(expected.digest());
  }

  private static byte[] numbers(int bytes) {
    byte[] all = new byte[bytes + 9];
    for (int number = 10_000_000, at = 0; at < bytes; number++, at += 9) {
      for (int digit = 7, rest = number; digit >= 0; digit--, rest /= 10) {
        all[at + digit] = (byte) ('0' + rest % 10);
      }
      all[at + 8] = ' ';
    }
    return java.util.Arrays.copyOf(all, bytes);
  }

  @Test
  void readersThatStopReadingCostNobodyAnything() throws Exception {
    int bytes = 50_000_000;
    Heard run = server.run(shell("echo; " + AWAIT_GO + "; head -c " + bytes + " /dev/zero"));
    run.awaitOutput(1);
    CountDownLatch enough = new CountDownLatch(1);
    List<Heard> stalled = new ArrayList<>();
    CountDownLatch blocked = new CountDownLatch(4);
    AttachRunRequest request = AttachRunRequest.newBuilder().setRunId(run.runId()).build();
    for (int i = 0; i < 4; i++) {
      stalled.add(
          Heard.from(
              0,
              heard ->
                  server
                      .runs()
                      .attachRun(
                          request,
                          event -> {
                            heard.accept(event);
                            if (event.hasOutput()) {
                              blocked.countDown();
                              awaitQuietly(enough);
                            }
                          })));
    }
    blocked.await();

    Files.createFile(server.runFolder(run.runId()).resolve("work/go"));

    assertThat(run.exited().getExitCode()).isZero();
    assertThat(run.out()).hasSize(bytes + 1);
    assertThat(stalled).allMatch(heard -> heard.out().length == 1);
    enough.countDown();
    for (Heard heard : stalled) {
      assertThat(heard.exited()).isEqualTo(run.exited());
      assertThat(heard.out()).hasSize(bytes + 1);
    }
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void whatIsBeyondTheLimitIsDroppedAndSaid(@TempDir Path other) throws IOException {
    try (RunServer small =
        new RunServer(
            other, "--docker", engine.host(), "--simulate-gpus", "1", "--output-limit", "64k")) {
      Heard heard = small.run(shell("head -c 300000 /dev/zero | tr '\\0' x; echo end >&2; exit 9"));

      assertThat(heard.exited().getExitCode()).isEqualTo(9);
      assertThat(new String(heard.out(), StandardCharsets.UTF_8)).isEqualTo("x".repeat(65536));
      assertThat(heard.errText()).isEqualTo("end\n");
      assertThat(heard.all(EventCase.TRUNCATED))
          .extracting(RunEvent::getTruncated)
          .containsExactly(
              OutputTruncated.newBuilder()
                  .setStream(OutputStream.OUTPUT_STREAM_STDOUT)
                  .setKeptBytes(65536)
                  .build());
      small.assertNothingLeft();
    }
  }
}
