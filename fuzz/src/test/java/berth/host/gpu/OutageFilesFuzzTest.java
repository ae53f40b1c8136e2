package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.KeptFolder;
import berth.fuzz.Scratch;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.rpc.Vitals;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The record of one of two GPUs that are out of service is the input but its first byte, which says
 * whether it has a checksum that matches.
 */
class OutageFilesFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());
  private static final String GOOD = "GPU-a";
  private static final String BAD = "GPU-b";
  private static final Outage RESET =
      new Outage(OptionalInt.of(1), RecoveryAction.GPU_RESET, "XID 48", false, false);
  private static final Outage REBOOT =
      new Outage(OptionalInt.empty(), RecoveryAction.NODE_REBOOT, "the driver: ü\n=", true, true);

  private static final KeptFolder TWO_OUTAGES = new KeptFolder(folder -> write(folder, RESET));

  static Stream<byte[]> seeds() throws IOException {
    Stream.Builder<byte[]> seeds = Stream.builder();
    for (Outage outage : new Outage[] {RESET, REBOOT}) {
      Path state = SCRATCH.empty();
      write(state, outage);
      seeds.add(seed(0, Files.readAllBytes(file(state))));
      seeds.add(seed(1, RecordFile.read(file(state))));
    }
    return seeds.build();
  }

  private static byte[] seed(int first, byte[] rest) {
    byte[] seed = new byte[rest.length + 1];
    seed[0] = (byte) first;
    System.arraycopy(rest, 0, seed, 1, rest.length);
    return seed;
  }

  @MethodSource("seeds")
  @FuzzTest
  void harmsNoOtherOutage(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    Path state = TWO_OUTAGES.restored();
    byte[] content = Arrays.copyOfRange(data, 1, data.length);
    boolean whole = (data[0] & 1) == 1;
    if (whole) {
      DISK.write(file(state), content);
    } else {
      Files.write(file(state), content);
    }

    OutageFiles first = store(state);
    Map<String, Outage> loaded = first.load();

    assertThat(loaded).containsEntry(GOOD, RESET);
    assertThat(loaded.keySet()).isSubsetOf(GOOD, BAD);
    if (!whole && !content(file(state), content)) {
      // Whatever was the matter with it, nobody has said that it is over.
      assertThat(loaded).containsKey(BAD);
    }
    first.flush();
    assertThat(store(state).load()).isEqualTo(loaded);
  }

  // Whether it is as some daemon may have written it, perhaps before the machine was restarted.
  private static boolean content(Path file, byte[] content) throws IOException {
    try {
      Files.write(file.resolveSibling("../copy"), content);
      RecordFile.read(file.resolveSibling("../copy"));
      return true;
    } catch (berth.host.state.DamagedFileException e) {
      return false;
    }
  }

  private static Path file(Path state) {
    return state.resolve("gpu-outages").resolve(BAD);
  }

  private static OutageFiles store(Path state) {
    return new OutageFiles(state, DISK, "boot", Duration.ofDays(1));
  }

  private static void write(Path state, Outage bad) throws IOException {
    OutageFiles store = store(state);
    store.save(Map.of(GOOD, RESET, BAD, bad));
    store.flush();
  }
}
