package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.command.Vitals;
import berth.fuzz.Scratch;
import berth.server.state.DurableFiles;
import berth.server.state.RecordFile;
import berth.v1.RunCodeRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** The record of one of two runs is the input, as a torn disk or a curious user leaves it. */
class RunStoreFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());
  private static final String GOOD = "run-0000000001";
  private static final String BAD = "run-0000000002";
  private static final RunRequest REQUEST =
      RunRequest.of(
          RunCodeRequest.newBuilder().setImage("a:1").addCommand("true").setName("digits").build());

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
    for (RunRecord each : List.of(record, started, ended)) {
      Path folder = SCRATCH.empty();
      store(folder, each);
      seeds.add(Files.readAllBytes(record(folder)));
      seeds.add(RecordFile.read(record(folder)));
    }
    return seeds.build();
  }

  @MethodSource("seeds")
  @FuzzTest
  void harmsNoOtherRun(byte[] data) throws Exception {
    Path folder = SCRATCH.empty();
    store(folder, RunRecord.accepted(GOOD, "", 1, Instant.EPOCH, RunRecord.Phase.QUEUED));
    store(folder, RunRecord.accepted(BAD, "", 2, Instant.EPOCH, RunRecord.Phase.QUEUED));
    if (data.length > 0 && data[0] == '#') {
      // As if it had been written so, which a checksum does not keep anybody from.
      DISK.write(record(folder), data);
    } else {
      Files.write(record(folder), data);
    }

    RunStore.Loaded loaded = new RunStore(folder, DISK).load();
    List<RunStore.Stored> found = loaded.runs();

    assertThat(found).extracting(stored -> stored.record().id()).contains(GOOD);
    assertThat(found)
        .extracting(stored -> stored.folder().path().getFileName().toString())
        .isSubsetOf(GOOD, BAD);
  }

  private static Path record(Path folder) {
    return new RunFolder(folder.resolve(BAD)).state();
  }

  private static void store(Path folder, RunRecord record) {
    new RunStore(folder, DISK).add(record, REQUEST);
  }
}
