package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.KeptFolder;
import berth.fuzz.Scratch;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.rpc.Vitals;
import berth.v1.RunCodeRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A file of one of two runs is the input but its first byte, as a torn disk or a curious user
 * leaves it. The first byte says which file it is.
 */
class RunStoreFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());
  private static final String GOOD = "run-0000000001";
  private static final String BAD = "run-0000000002";
  private static final RunRequest REQUEST =
      RunRequest.of(
          RunCodeRequest.newBuilder().setImage("a:1").addCommand("true").setName("digits").build());
  private static final KeptFolder TWO_RUNS =
      new KeptFolder(
          folder -> {
            store(folder, RunRecord.accepted(GOOD, "", 1, Instant.EPOCH, RunRecord.Phase.QUEUED));
            store(folder, RunRecord.accepted(BAD, "", 2, Instant.EPOCH, RunRecord.Phase.QUEUED));
          });

  static Stream<byte[]> seeds() throws IOException {
    RunRecord record = RunRecord.accepted(BAD, "", 2, Instant.EPOCH, RunRecord.Phase.QUEUED);
    RunRecord started =
        record
            .running(
                new RunRecord.Started(
                    "c1",
                    Instant.EPOCH,
                    1,
                    OptionalInt.of(7),
                    true,
                    List.of("cpus"),
                    Optional.of(Duration.ofHours(1))))
            .stopping(new RunRecord.Stop(RunRecord.ExitReason.CANCELLED, "by anna"));
    RunRecord ended =
        started.ended(
            new RunRecord.Ended(
                137,
                RunRecord.ExitReason.CANCELLED,
                "by anna",
                Duration.ofSeconds(9),
                OptionalLong.of(1 << 20),
                9.5,
                Instant.EPOCH,
                12));
    Stream.Builder<byte[]> seeds = Stream.builder();
    for (RunRecord each : List.of(record, started, ended, ended.at(RunRecord.Phase.CLEANED))) {
      Path folder = SCRATCH.empty();
      store(folder, each);
      RunFolder run = new RunFolder(folder.resolve(BAD));
      for (Damage damage : Damage.values()) {
        if (each == record || damage.file(run).equals(run.state())) {
          seeds.add(seed(damage, Files.readAllBytes(damage.file(run)), 0));
          seeds.add(seed(damage, RecordFile.read(damage.file(run)), Damage.values().length));
        }
      }
    }
    return seeds.build();
  }

  /** What is not as it was written. */
  private enum Damage {
    STATE,
    REQUEST,
    CONTENT,
    /** Which is read in place of a request that is damaged. */
    CONTENT_AND_REQUEST;

    Path file(RunFolder run) {
      return switch (this) {
        case STATE -> run.state();
        case REQUEST -> run.request();
        case CONTENT, CONTENT_AND_REQUEST -> run.content();
      };
    }
  }

  private static byte[] seed(Damage damage, byte[] content, int more) {
    byte[] seed = new byte[content.length + 1];
    seed[0] = (byte) (damage.ordinal() + more);
    System.arraycopy(content, 0, seed, 1, content.length);
    return seed;
  }

  @MethodSource("seeds")
  @FuzzTest
  void harmsNoOtherRun(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    Path folder = TWO_RUNS.restored();
    damage(new RunFolder(folder.resolve(BAD)), data);

    RunStore store = new RunStore(folder, DISK);
    // In this thread: starting others takes longer than reading.
    RunStore.Loaded loaded = store.load(Runnable::run);

    assertThat(loaded.runs()).extracting(stored -> id(stored.folder())).contains(GOOD);
    for (RunStore.Stored stored : loaded.runs()) {
      RunRecord record = stored.record();
      assertThat(id(stored.folder())).isIn(GOOD, BAD).isEqualTo(record.id());
      assertThat(record.requestId()).isNotNull();
      record.started().ifPresent(started -> assertThat(started.containerId()).isNotNull());
      record.stop().ifPresent(stop -> assertThat(stop.message()).isNotNull());
      record.ended().ifPresent(ended -> assertThat(ended.message()).isNotNull());
      store.shown(stored.folder());
      Optional<RequestedRun> whole = Inputs.accepted(() -> store.whole(stored.folder()));
      if (record.id().equals(GOOD)) {
        assertThat(stored.damaged()).isFalse();
        assertThat(whole.orElseThrow().name()).isEqualTo("digits");
      }
    }
    assertThat(loaded.unreadable()).allMatch(unreadable -> id(unreadable).equals(BAD));
  }

  private static void damage(RunFolder run, byte[] data) throws IOException {
    int choice = (data[0] & 0xff) % (2 * Damage.values().length);
    Damage damage = Damage.values()[choice % Damage.values().length];
    byte[] content = Arrays.copyOfRange(data, 1, data.length);
    if (choice < Damage.values().length) {
      Files.write(damage.file(run), content);
    } else {
      // As if it had been written so, which a checksum does not keep anybody from.
      DISK.write(damage.file(run), content);
    }
    if (damage == Damage.CONTENT_AND_REQUEST) {
      Files.write(run.request(), new byte[0]);
    }
  }

  private static void store(Path folder, RunRecord record) {
    new RunStore(folder, DISK).add(record, REQUEST);
  }

  private static String id(RunFolder run) {
    return run.path().getFileName().toString();
  }
}
