package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.state.SmallDisk;
import berth.rpc.Vitals;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Output through real pipes and real readers of them. */
class SpoolTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final long PLENTY = 1L << 30;

  @TempDir private Path temp;
  private RunFolder folder;
  @AutoClose private SpoolWatch watch = new SpoolWatch(new Vitals());
  @AutoClose private Spool spool;

  @BeforeEach
  void open() throws Exception {
    folder = new RunFolder(temp.resolve("run-a"));
    folder.createForProgram();
    spool = new Spool(folder, watch);
    spool.follow();
  }

  @Test
  void bothStreamsAreReadInTheOrderInWhichTheyCame() throws Exception {
    spool.start(PLENTY);
    Process program = program("echo one; read x; echo two >&2; read x; echo three");
    awaitTotal(4);
    answer(program);
    awaitTotal(8);
    answer(program);
    assertThat(spool.awaitComplete(PATIENCE)).isTrue();

    assertThat(all(spool)).containsExactly("stdout:one\n", "stderr:two\n", "stdout:three\n");
  }

  @Test
  void readersThatCouldNotBeFoundAgainAreNotStarted() throws Exception {
    RunFolder small = new RunFolder(Files.createDirectory(temp.resolve("run-b")));
    SmallDisk disk = new SmallDisk(small.path());
    try {
      small.createForProgram();
      try (Spool full = new Spool(small, watch)) {
        disk.fill();
        assertThatThrownBy(() -> full.start(PLENTY))
            .hasMessageEndingWith("the readers of the output did not start");
        assertThat(readersOf(small)).isEmpty();
        disk.empty();
        full.start(PLENTY);
        full.abandon();
        assertThat(full.awaitComplete(PATIENCE)).isTrue();
      }
    } finally {
      readersOf(small).forEach(ProcessHandle::destroyForcibly);
      disk.close();
    }
  }

  private static List<ProcessHandle> readersOf(RunFolder folder) {
    return ProcessHandle.allProcesses()
        .filter(
            process ->
                process
                    .info()
                    .arguments()
                    .filter(words -> List.of(words).contains(folder.path().toString()))
                    .isPresent())
        .toList();
  }

  @Test
  void everyByteIsReadFromAnyOffset() throws Exception {
    spool.start(PLENTY);
    byte[] printed = new byte[3_000_000];
    new Random(7).nextBytes(printed);
    Path file = Files.write(temp.resolve("bytes"), printed);
    program("cat " + file).waitFor();
    assertThat(spool.awaitComplete(PATIENCE)).isTrue();

    assertThat(spool.total()).isEqualTo(printed.length);
    for (int offset : new int[] {0, 1, 65_535, 2_999_999}) {
      ByteArrayOutputStream read = new ByteArrayOutputStream();
      for (long at = offset; at < printed.length; ) {
        ByteBuffer data = spool.read(at, 100_000).orElseThrow().data();
        at += data.remaining();
        Channels.newChannel(read).write(data);
      }
      assertThat(read.toByteArray())
          .isEqualTo(java.util.Arrays.copyOfRange(printed, offset, printed.length));
    }
    assertThat(spool.read(printed.length, 10)).isEmpty();
  }

  @Test
  void anotherProcessGoesOnWhereThisOneStopped() throws Exception {
    spool.start(PLENTY);
    Process program =
        program("echo a; echo b >&2; read x; echo c >&2; echo d; read x; echo e >&2; echo f");
    awaitTotal(4);
    List<String> before = all(spool);
    spool.close();
    // Nobody of ours looks while these come.
    answer(program);
    await().atMost(PATIENCE).until(() -> Files.size(folder.spool().resolve("stderr")) >= 4);
    await().atMost(PATIENCE).until(() -> Files.size(folder.spool().resolve("stdout")) >= 4);

    spool = new Spool(folder, watch);
    spool.follow();
    spool.start(PLENTY);
    awaitTotal(8);
    List<String> meanwhile = all(spool);
    answer(program);
    assertThat(spool.awaitComplete(PATIENCE)).isTrue();

    List<String> after = all(spool);
    assertThat(String.join("", meanwhile)).startsWith(String.join("", before));
    assertThat(String.join("", after)).startsWith(String.join("", meanwhile));
    assertThat(of("stdout", after)).isEqualTo("a\nd\nf\n");
    assertThat(of("stderr", after)).isEqualTo("b\nc\ne\n");
  }

  @Test
  void whatIsBeyondTheLimitIsDroppedAndThatIsKnownAtOnce() throws Exception {
    spool.start(4096);
    Process program = program("head -c 100000 /dev/zero; read x; echo err >&2");
    await().atMost(PATIENCE).until(() -> spool.dropped(OutputStreamKind.STDOUT));
    answer(program);
    assertThat(spool.awaitComplete(PATIENCE)).isTrue();

    assertThat(spool.size(OutputStreamKind.STDOUT)).isEqualTo(4096);
    assertThat(spool.size(OutputStreamKind.STDERR)).isEqualTo(4);
    assertThat(spool.dropped(OutputStreamKind.STDERR)).isFalse();
    assertThat(program.waitFor()).isZero();
  }

  @Test
  void aProgramEndsAsUsualWhenNothingOfItsOutputCanBeKept() throws Exception {
    spool.close();
    for (String file : List.of("order", "stderr")) {
      Files.delete(folder.spool().resolve(file));
      Files.createSymbolicLink(folder.spool().resolve(file), Path.of("/dev/full"));
    }
    spool = new Spool(folder, watch);
    spool.follow();
    spool.start(PLENTY);

    Process program = program("echo one; echo two >&2");

    assertThat(spool.awaitComplete(PATIENCE)).isTrue();
    assertThat(program.waitFor()).isZero();
    assertThat(spool.total()).isZero();
    assertThat(spool.dropped(OutputStreamKind.STDERR)).isTrue();
  }

  @Test
  void whatReachesTheLimitExactlyLosesNothing() throws Exception {
    spool.start(4096);
    program("head -c 4096 /dev/zero").waitFor();

    assertThat(spool.awaitComplete(PATIENCE)).isTrue();
    assertThat(spool.dropped(OutputStreamKind.STDOUT)).isFalse();
  }

  @Test
  void aProgramThatOpensItsOutputAgainLosesNothing() throws Exception {
    spool.start(PLENTY);
    program("echo one; echo two >/dev/stdout; echo three >>/dev/stdout; echo four").waitFor();

    assertThat(spool.awaitComplete(PATIENCE)).isTrue();
    assertThat(all(spool)).containsExactly("stdout:one\ntwo\nthree\nfour\n");
  }

  @Test
  void readersOfAProgramThatNeverCameEnd() throws Exception {
    spool.start(PLENTY);

    spool.abandon();

    assertThat(spool.awaitComplete(PATIENCE)).isTrue();
    assertThat(spool.total()).isZero();
  }

  @Test
  void readersOfAProgramThatWasKilledBetweenItsPipesEnd() throws Exception {
    spool.start(PLENTY);
    new ProcessBuilder("sh", "-c", ": >\"$1/stdout\"", "sh", folder.io().toString())
        .start()
        .waitFor();

    spool.abandon();

    assertThat(spool.awaitComplete(PATIENCE)).isTrue();
  }

  @Test
  void whateverHappensToTheOrderNothingThatWasPrintedIsLost() throws Exception {
    Files.writeString(folder.spool().resolve("stdout"), "one\n");
    spool.refresh();
    Files.writeString(folder.spool().resolve("stderr"), "two\n");
    spool.refresh();
    spool.close();
    Path order = folder.spool().resolve("order");
    byte[] whole = Files.readAllBytes(order);
    assertThat(whole).hasSize(32);
    for (byte[] damaged : RunStoreTest.damages(whole)) {
      Files.write(order, damaged);
      try (Spool again = new Spool(folder, watch)) {
        List<String> pieces = all(again);
        assertThat(of("stdout", pieces)).isEqualTo("one\n");
        assertThat(of("stderr", pieces)).isEqualTo("two\n");
      }
    }
  }

  private Process program(String script) throws IOException {
    return new ProcessBuilder(
            "sh",
            "-c",
            "exec >\"$1/stdout\" 2>\"$1/stderr\"; " + script,
            "sh",
            folder.io().toString())
        .start();
  }

  private static void answer(Process program) throws IOException {
    program.getOutputStream().write('\n');
    program.getOutputStream().flush();
  }

  private void awaitTotal(long bytes) {
    await().atMost(PATIENCE).until(() -> spool.total() >= bytes);
  }

  private static List<String> all(Spool spool) {
    List<String> pieces = new ArrayList<>();
    Optional<Spool.Chunk> chunk;
    for (long at = 0; (chunk = spool.read(at, 1 << 20)).isPresent(); ) {
      at += chunk.get().data().remaining();
      pieces.add(
          chunk.get().stream().fileName()
              + ":"
              + StandardCharsets.UTF_8.decode(chunk.get().data()));
    }
    return pieces;
  }

  private static String of(String stream, List<String> pieces) {
    StringBuilder text = new StringBuilder();
    pieces.stream()
        .filter(piece -> piece.startsWith(stream))
        .forEach(piece -> text.append(piece.substring(stream.length() + 1)));
    return text.toString();
  }
}
