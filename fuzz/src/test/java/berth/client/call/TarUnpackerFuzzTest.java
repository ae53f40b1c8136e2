package berth.client.call;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.fuzz.SeedTars;
import berth.fuzz.Unpacked;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class TarUnpackerFuzzTest {
  private static final long MOST_UNPACKED = 1 << 20;
  private static final int MOST_ENTRIES = 100_000;
  private static final Scratch SCRATCH = new Scratch();

  static Stream<byte[]> seeds() throws IOException {
    return SeedTars.seeds();
  }

  @MethodSource("seeds")
  @FuzzTest
  void unpacksNothingOutsideOfItsFolderAndNoMoreThanAllowed(byte[] data) throws Exception {
    Path scratch = SCRATCH.empty();
    Path into = Unpacked.beside(scratch);
    Inputs.accepted(() -> unpack(data, into));
    Unpacked.check(scratch, into, MOST_UNPACKED, MOST_ENTRIES);
  }

  private static Optional<TarUnpacker.Unpacked> unpack(byte[] tar, Path into) {
    try {
      return Optional.of(
          TarUnpacker.unpack(
              new ByteArrayInputStream(tar),
              into,
              name -> name,
              new TarUnpacker.Limits(MOST_UNPACKED, MOST_ENTRIES, 100)));
    } catch (IOException e) {
      // As it says of tars that are none.
      return Optional.empty();
    }
  }
}
